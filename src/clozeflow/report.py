"""Reports: one self-contained HTML page of text, tables and pictures.

Everything that comes from outside is escaped; nothing is loaded from a network. The same
content gives the same bytes, so that a report can be part of a fingerprint.
"""

from __future__ import annotations

import html
import io
import logging
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Its news of the fonts that it has found are none of a user's business.
logging.getLogger("matplotlib").setLevel(logging.WARNING)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { text-align: left; font-weight: 600; } td.number { text-align: right; }
figure { margin: 1rem 0; background: #fff; border-radius: 6px; padding: .5rem; }
figure svg { max-width: 100%; height: auto; } figcaption { color: #555; font-size: .9rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .6rem; }
"""


_PERCENT = re.compile(r"-?[\d.,]+ ?%")
_MANY = 1e15
"""Above it the digits of a float say nothing."""


class Report:
    """A page that is built from top to bottom; every method returns the page itself."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def heading(self, text: str) -> Self:
        """Starts a section."""
        return self._add(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str) -> Self:
        """A paragraph."""
        return self._add(f"<p>{html.escape(text)}</p>")

    def quote(self, text: str) -> Self:
        """Text from outside, with its line ends kept."""
        return self._add(f"<pre>{html.escape(text)}</pre>")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Self:
        """A table; numbers are set to the right, large ones with thousands separated."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        return self._add(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def figure(self, figure: Figure, caption: str) -> Self:
        """A matplotlib figure, as SVG inside the page."""
        text = html.escape(caption)
        return self._add(f"<figure>{_svg(figure)}<figcaption>{text}</figcaption></figure>")

    def drawing(self, svg: str, caption: str) -> Self:
        """A drawing that is SVG already; texts from outside must be escaped in it."""
        return self._add(f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>")

    def to_html(self) -> str:
        """The whole page."""
        title = html.escape(self._title)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><title>{title}</title><style>{_STYLE}</style></head>'
            f"<body><h1>{title}</h1>\n" + "\n".join(self._parts) + "\n</body></html>\n"
        )

    def _add(self, part: str) -> Self:
        self._parts.append(part)
        return self


def new_figure(*, width: float = 8, height: float = 3.2) -> Figure:
    """An empty matplotlib figure, in inches, that no global state knows."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def format_number(value: float) -> str:
    """A number for people: thousands separated, four significant digits."""
    if isinstance(value, int) or 1000 <= abs(value) < _MANY:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _cell(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<td class="number">{format_number(value)}</td>'
    if _PERCENT.fullmatch(str(value)):
        return f'<td class="number">{value}</td>'
    return f"<td>{html.escape(str(value))}</td>"


def _svg(figure: Figure) -> str:
    import matplotlib

    stream = io.StringIO()
    # The salt and the missing date make the same figure the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "clozeflow", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]
