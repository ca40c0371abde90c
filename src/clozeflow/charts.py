"""Plain bar charts as SVG, for reports of stages that are over before matplotlib is imported.

A chart is 800 units wide. Texts are escaped here; the same numbers give the same bytes.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Mapping, Sequence

WIDTH = 800
COLORS = ("#4477aa", "#ee9944", "#cc3344", "#228833", "#8866aa")
"""One for each part of a bar, in order."""
_MARK_COLOR = "#cc3344"
_NAMES_WIDTH, _NUMBERS_WIDTH = 180, 110
_BAR_HEIGHT, _BAR_STEP = 20, 28
_LEGEND_HEIGHT, _AXIS_HEIGHT = 26, 40
_PLOT_HEIGHT, _LEFT = 220, 70
_MOST_CHARS = 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bin:
    """One bar of a histogram: how many values are from `low` to below `high`."""

    low: float
    high: float
    count: int


def stacked_bars(
    rows: Mapping[str, Sequence[float]], *, parts: Sequence[str], axis: str, whole: float
) -> str:
    """A horizontal bar for each row, of several parts.

    Args:
        rows: By name, how large each part is.
        parts: The parts' names, for the legend.
        axis: What is measured; tick marks are percents of `whole`.
        whole: The length of the axis.
    """
    room = WIDTH - _NAMES_WIDTH - 30
    drawn = list(_legend(parts))
    for index, (name, sizes) in enumerate(rows.items()):
        y, left = _LEGEND_HEIGHT + index * _BAR_STEP, 0.0
        drawn.append(_name(name, y))
        for color, size in zip(COLORS, sizes, strict=False):
            drawn.append(
                _rect(
                    _NAMES_WIDTH + left / whole * room, y, size / whole * room, _BAR_HEIGHT, color
                )
            )
            left += size
    bottom = _LEGEND_HEIGHT + len(rows) * _BAR_STEP
    for percent in range(0, 101, 20):
        x = _NAMES_WIDTH + percent / 100 * room
        drawn += [_line(x, bottom, x, bottom + 4), _text(x, bottom + 16, f"{percent} %", "middle")]
    drawn.append(_text(_NAMES_WIDTH + room / 2, bottom + 34, axis, "middle"))
    return _svg(drawn, bottom + _AXIS_HEIGHT)


def named_bars(values: Iterable[tuple[str, int]]) -> str:
    """A horizontal bar for each name, with its number behind it."""
    rows = list(values)
    largest = max((value for _, value in rows), default=0) or 1
    room = WIDTH - _NAMES_WIDTH - _NUMBERS_WIDTH
    drawn = []
    for index, (name, value) in enumerate(rows):
        y, width = index * _BAR_STEP + 2, value / largest * room
        drawn += [
            _name(name, y),
            _rect(_NAMES_WIDTH, y, width, _BAR_HEIGHT, COLORS[0]),
            _text(_NAMES_WIDTH + width + 6, y + 15, f"{value:,}", "start"),
        ]
    return _svg(drawn, len(rows) * _BAR_STEP + 4)


def histogram(bins: Sequence[Bin], *, axis: str, mark: float, mark_name: str) -> str:
    """Upright bars over a logarithmic axis, with a line at `mark`.

    Args:
        bins: What is drawn, from positive values on.
        axis: What is measured.
        mark: A value to draw a line at.
        mark_name: What stands there.
    """
    low = math.log2(min([mark, *(one.low for one in bins)]))
    high = math.log2(max([mark, *(one.high for one in bins)]))
    most, step = _scale(max((one.count for one in bins), default=0))
    room = WIDTH - _LEFT - 20

    def across(value: float) -> float:
        return _LEFT + (math.log2(value) - low) / max(high - low, 1) * room

    def up(count: float) -> float:
        return 20 + _PLOT_HEIGHT * (1 - count / most)

    drawn = []
    for count in range(0, most + 1, step):
        drawn.append(_line(_LEFT, up(count), WIDTH - 20, up(count), "#ddd"))
        drawn.append(_text(_LEFT - 6, up(count) + 4, f"{count:,}", "end"))
    for one in bins:
        x, y = across(one.low), up(one.count)
        drawn.append(_rect(x, y, across(one.high) - x - 0.5, up(0) - y, COLORS[0]))
    exponents = range(math.ceil(low), math.floor(high) + 1)
    for exponent in exponents[:: 1 + len(exponents) // 16]:
        drawn.append(_text(across(2**exponent), up(0) + 16, f"{2**exponent:,}", "middle"))
    drawn.append(_line(across(mark), 16, across(mark), up(0), _MARK_COLOR))
    drawn.append(_text(across(mark), 11, mark_name, "middle"))
    drawn.append(_text(_LEFT + room / 2, up(0) + 36, axis, "middle"))
    return _svg(drawn, 20 + _PLOT_HEIGHT + _AXIS_HEIGHT)


def _scale(largest: int) -> tuple[int, int]:
    """Where an axis of whole numbers ends, and a round step that divides it in two to five."""
    power = 10 ** max(0, math.floor(math.log10(max(largest, 1))))
    for size in (0.2, 0.5, 1, 2):
        step = max(1, int(size * power))
        if step * 5 >= largest:
            return step * max(1, math.ceil(largest / step)), step
    raise AssertionError("five times two powers of ten are more")


def _legend(parts: Sequence[str]) -> Iterable[str]:
    x = float(_NAMES_WIDTH)
    for color, part in zip(COLORS, parts, strict=False):
        yield _rect(x, 2, 12, 12, color)
        yield _text(x + 18, 12, part, "start")
        x += 40 + 8 * len(part)


def _name(text: str, y: float) -> str:
    short = text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
    return _text(_NAMES_WIDTH - 8, y + 15, short, "end")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, color: str) -> str:
    size = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{color}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str = "#333") -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{color}"/>'


def _svg(drawn: Iterable[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" font-family="system-ui, sans-serif" font-size="12" fill="#333">'
        + "".join(drawn)
        + "</svg>"
    )
