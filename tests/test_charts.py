import itertools
import xml.etree.ElementTree as ET

import pytest

from clozeflow import charts
from clozeflow.charts import Bin

SVG = "{http://www.w3.org/2000/svg}"


def read(svg: str) -> tuple[list[dict[str, str]], list[str]]:
    """The rectangles and the texts of a chart."""
    root = ET.fromstring(svg)
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    return [element.attrib for element in root.iter(f"{SVG}rect")], texts


def widths(rectangles) -> list[float]:
    return [float(rectangle["width"]) for rectangle in rectangles]


def test_parts_of_a_bar_lie_end_to_end_and_fill_their_share():
    svg = charts.stacked_bars(
        {"train": [0.5, 0.3, 0.2], "test": [1, 0, 0]}, parts=["a", "b", "c"], axis="x", whole=1
    )
    rectangles, texts = read(svg)
    bars = rectangles[3:]  # the first are the legend's
    assert {"train", "test", "a", "b", "c", "100 %"} <= set(texts)
    train = bars[:3]
    whole = sum(widths(train))
    assert widths(train) == pytest.approx([whole * share for share in (0.5, 0.3, 0.2)], abs=0.1)
    assert widths(bars[3:]) == pytest.approx([whole, 0, 0], abs=0.2)
    for one, next_one in itertools.pairwise(train):
        end = float(one["x"]) + float(one["width"])
        assert end == pytest.approx(float(next_one["x"]), abs=0.2)
    assert len({bar["fill"] for bar in train}) == 3


def test_names_from_outside_are_text_and_bars_have_their_numbers():
    rectangles, texts = read(charts.named_bars([("$x_1$ <b>&", 3000), ("b" * 80, 1000)]))
    assert texts[:2] == ["$x_1$ <b>&", "3,000"]
    assert texts[2].startswith("bbb") and texts[2].endswith("…") and len(texts[2]) < 30
    assert widths(rectangles)[0] == pytest.approx(3 * widths(rectangles)[1], abs=0.2)


def test_a_histogram_stands_on_its_axis():
    bins = [Bin(low=4, high=8, count=10), Bin(low=8, high=16, count=20)]
    rectangles, texts = read(charts.histogram(bins, axis="tokens", mark=16, mark_name="here"))
    assert widths(rectangles)[0] == pytest.approx(widths(rectangles)[1], abs=0.2)  # a logarithm
    heights = [float(rectangle["height"]) for rectangle in rectangles]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    feet = {round(float(r["y"]) + float(r["height"])) for r in rectangles}
    assert len(feet) == 1
    assert {"4", "8", "16", "here", "tokens", "0", "20"} <= set(texts)


@pytest.mark.parametrize("largest", [0, 1, 3, 9, 10, 11, 49, 51, 999, 1_234_567])
def test_an_axis_has_a_few_round_steps(largest):
    end, step = charts._scale(largest)
    assert end >= largest and end % step == 0
    assert 1 <= end // step <= 5
    assert str(step)[1:].strip("0") == ""


def test_nothing_can_be_drawn_too():
    for svg in (
        charts.histogram([], axis="x", mark=128, mark_name="m"),
        charts.named_bars([]),
        charts.stacked_bars({}, parts=["a"], axis="x", whole=1),
    ):
        ET.fromstring(svg)
