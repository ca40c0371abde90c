"""The report, opened in a browser at two widths: whole, quiet, and with no network."""

import pytest

from tests.evaluation import browser

PICTURES = "[...document.querySelectorAll('figure svg, img')].map(e => e.getBoundingClientRect())"


@pytest.mark.parametrize("width", [1200, 420])
def test_the_page_opens_whole_and_asks_for_nothing(evaluation, tmp_path, width):
    file = evaluation / "report.html"
    with browser.open_page(file, width=width, height=900, profile=tmp_path / "profile") as page:
        sizes = page.evaluate(f"{PICTURES}.map(box => [box.width, box.height])")
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        headings = page.evaluate("[...document.querySelectorAll('h2')].map(e => e.textContent)")
        shown = page.evaluate("document.body.innerText")
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith("data:")] == [file.as_uri()]
    assert len(sizes) == 3
    assert all(0.6 * min(width, 500) < box[0] <= width and box[1] > 80 for box in sizes)
    assert overflow <= 0
    assert headings == [
        "Not blessed",
        "Training",
        "Figures",
        "Answers",
        "Slices",
        "Calibration",
        "Worst mistakes",
        "Nearest neighbours",
    ]
    assert "masked_accuracy_top10" in shown
    assert "nan" not in shown.lower().split()


def test_a_page_that_loads_from_outside_would_be_noticed(tmp_path):
    file = tmp_path / "bad.html"
    file.write_text('<img src="http://127.0.0.1:9/picture.png"><script>no_such_name()</script>')
    with browser.open_page(file, width=800, height=600, profile=tmp_path / "profile") as page:
        assert page.evaluate("1 + 1") == 2
    assert "http://127.0.0.1:9/picture.png" in page.requests
    assert any("no_such_name" in problem for problem in page.problems)
