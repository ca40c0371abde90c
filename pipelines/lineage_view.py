"""Lineage for people: a tree of text, and a page with a drawing."""

import html
import json
from collections.abc import Iterator
from typing import Any

from clozeflow.report import Report, format_number
from pipelines.lineage import Graph, Node, State

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 250, 64, 40, 56


def to_tree(graph: Graph) -> str:
    """The graph as a tree; an artifact used twice is written out once."""
    seen: set[str] = set()
    return "\n".join(line for root in graph.roots for line in _lines(graph, root, "", seen))


def _lines(graph: Graph, fingerprint: str, role: str, seen: set[str]) -> Iterator[str]:
    node = graph.nodes[fingerprint]
    repeated = fingerprint in seen and bool(node.inputs)
    seen.add(fingerprint)
    label = f"{role}: " if role else ""
    yield f"{label}{node.title}" + ("  (see above)" if repeated else _suffix(node))
    if repeated:
        return
    details = list(_details(node))
    stem = "│  " if node.inputs else "   "
    yield from (stem + line for line in details)
    for position, edge in enumerate(node.inputs, start=1):
        is_last = position == len(node.inputs)
        below = _lines(graph, edge.fingerprint, edge.name, seen)
        for number, line in enumerate(below):
            branch = "└─ " if is_last else "├─ "
            yield (branch if number == 0 else "   " if is_last else "│  ") + line


def _suffix(node: Node) -> str:
    if node.state is State.GONE:
        return f"  (no longer at {node.uri})"
    return f"  {node.uri}"


def _details(node: Node) -> Iterator[str]:
    if node.stage:
        made = ", ".join(f"{name} {value}" for name, value in node.made_by.items())
        yield f"made by {node.stage} ({made})"
    if node.settings:
        yield "settings: " + ", ".join(f"{k}={_word(v)}" for k, v in node.settings.items())
    if node.metrics:
        yield "figures: " + ", ".join(f"{k}={format_number(v)}" for k, v in node.metrics.items())


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def to_html(graph: Graph) -> str:
    """The graph as a page that needs nothing else: a drawing, and a table for each node."""
    titles = ", ".join(graph.nodes[root].title for root in graph.roots)
    report = Report(f"Lineage of {titles}")
    report.drawing(_svg(graph), "Made of what: sources above, the artifact asked for below.")
    for node in graph.nodes.values():
        report.heading(node.title).text(f"{node.state}: {node.uri}")
        for what, values in (
            ("made by", {"stage": node.stage, **node.made_by} if node.stage else {}),
            ("setting", node.settings),
            ("figure", node.metrics),
            ("fact", node.facts),
        ):
            if values:
                report.table((what, "value"), [(name, _cell(v)) for name, v in values.items()])
    return report.to_html()


def _cell(value: Any) -> object:
    return value if isinstance(value, (int, float, str)) else _word(value)


def _svg(graph: Graph) -> str:
    places = _places(graph)
    num_rows = len({y for _, y in places.values()})
    width = max(x for x, _ in places.values()) + _BOX_WIDTH + _bulge(num_rows) + 2
    height = max(y for _, y in places.values()) + _BOX_HEIGHT + 2
    edges = [
        _arrow(places[edge.fingerprint], places[node.fingerprint])
        for node in graph.nodes.values()
        for edge in node.inputs
    ]
    boxes = [_box(node, *places[node.fingerprint]) for node in graph.nodes.values()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="13">'
        + "".join(edges + boxes)
        + "</svg>"
    )


def _bulge(num_rows: int) -> int:
    """How far to the side, in pixels, an edge over so many rows bends."""
    return 30 * num_rows


def _places(graph: Graph) -> dict[str, tuple[int, int]]:
    """The corner of each node's box, in pixels: rows by distance from the sources."""
    levels: dict[str, int] = {}

    def level(fingerprint: str) -> int:
        if fingerprint not in levels:
            below = [level(edge.fingerprint) for edge in graph.nodes[fingerprint].inputs]
            levels[fingerprint] = 1 + max(below, default=-1)
        return levels[fingerprint]

    columns: dict[int, int] = {}
    places = {}
    for fingerprint in graph.nodes:
        row = level(fingerprint)
        column = columns[row] = columns.get(row, -1) + 1
        places[fingerprint] = (
            column * (_BOX_WIDTH + _GAP_X) + 1,
            row * (_BOX_HEIGHT + _GAP_Y) + 1,
        )
    return places


def _box(node: Node, x: int, y: int) -> str:
    fill = {State.FOUND: "#e8f0fe", State.SOURCE: "#e6f4ea", State.GONE: "#fce8e6"}[node.state]
    second = f"by {node.stage}" if node.stage else node.uri[-34:]
    return (
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="#5f6368"/>'
        f'<text x="{x + 12}" y="{y + 26}" font-weight="600">{html.escape(node.title)}</text>'
        f'<text x="{x + 12}" y="{y + 48}" fill="#444">{html.escape(second)}</text>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """From box to box: straight down to the next row, and around the rows between otherwise."""
    num_rows = (end[1] - start[1]) // (_BOX_HEIGHT + _GAP_Y)
    if num_rows > 1:
        x1, y1 = start[0] + _BOX_WIDTH, start[1] + _BOX_HEIGHT // 2
        x2, y2 = end[0] + _BOX_WIDTH, end[1] + _BOX_HEIGHT // 3
        side = max(x1, x2) + _bulge(num_rows)
        bends = f"{side},{y1} {side},{y2}"
    else:
        x1, y1 = start[0] + _BOX_WIDTH // 2, start[1] + _BOX_HEIGHT
        x2, y2 = end[0] + _BOX_WIDTH // 2, end[1]
        bends = f"{x1},{(y1 + y2) // 2} {x2},{(y1 + y2) // 2}"
    return (
        f'<path d="M{x1},{y1} C{bends} {x2},{y2}" fill="none" '
        f'stroke="#5f6368" stroke-width="1.5"/><circle cx="{x2}" cy="{y2}" r="3" fill="#5f6368"/>'
    )
