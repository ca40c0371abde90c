"""Reports: self-contained, escaped, the same bytes each time."""

import re

from clozeflow.report import Report, format_number, new_figure


def page() -> str:
    figure = new_figure()
    figure.subplots().plot([1, 2, 3], label="<loss> & more")
    hostile = "<script>alert(1)</script>"
    return (
        Report(hostile)
        .heading(hostile)
        .text(hostile)
        .quote(hostile)
        .table([hostile], [[hostile], [1234567], [0.5]])
        .figure(figure, hostile)
        .to_html()
    )


def test_nothing_from_outside_is_markup():
    assert "<script" not in page()


def test_nothing_is_loaded_from_a_network():
    assert not re.search(
        r"""(src|href)=["']?(https?:)?//""", re.sub(r'xmlns[:\w]*="[^"]*"', "", page())
    )


def test_same_content_same_bytes():
    assert page() == page()


def test_numbers_for_people():
    assert [format_number(n) for n in (1234567, 0.123456, 12.0, 2e9)] == [
        "1,234,567",
        "0.1235",
        "12",
        "2,000,000,000",
    ]
