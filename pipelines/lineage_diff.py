"""What differs between the histories of two artifacts, down to the setting."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from clozeflow.errors import UserError
from pipelines.lineage import Edge, Graph, Node, short

_ABSENT = "(not there)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not the same on both sides."""

    where: str
    """The way from the artifact asked for to the one that differs, by the inputs' names."""
    what: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: {self.first} / {self.second}"


def differences(first: Graph, second: Graph) -> list[Difference]:
    """The differences between two graphs, the ones nearest to the sources first.

    Where two artifacts have one fingerprint, their histories are the same and are not looked at.

    Raises:
        UserError: One of them is a run that ended in several artifacts.
    """
    for graph in (first, second):
        if len(graph.roots) != 1:
            raise UserError(
                "--diff",
                "compares one artifact with one",
                got=", ".join(graph.nodes[root].title for root in graph.roots),
                fix="Give the folder of one of them.",
            )
    (one,), (two,) = first.roots, second.roots
    return list(_compare(first, second, one, two, first.nodes[one].type, set()))


def _compare(
    first: Graph, second: Graph, one: str, two: str, where: str, seen: set[tuple[str, str]]
) -> Iterator[Difference]:
    if one == two or (one, two) in seen:
        return
    seen.add((one, two))
    a, b = first.nodes[one], second.nodes[two]
    edges_a, edges_b = _by_name(a.inputs), _by_name(b.inputs)
    for name in [*edges_a, *(name for name in edges_b if name not in edges_a)]:
        below = f"{where} < {name}"
        if name in edges_a and name in edges_b:
            yield from _compare(first, second, edges_a[name], edges_b[name], below, seen)
        else:
            known = [short(e[name]) if name in e else _ABSENT for e in (edges_a, edges_b)]
            yield Difference(where=below, what="input", first=known[0], second=known[1])
    yield from _compare_nodes(a, b, where)


def _by_name(edges: tuple[Edge, ...]) -> dict[str, str]:
    return {edge.name: edge.fingerprint for edge in edges}


def _compare_nodes(a: Node, b: Node, where: str) -> Iterator[Difference]:
    if not a.stage and not b.stage:
        yield Difference(where=where, what="source", first=_source(a), second=_source(b))
    for what, left, right in (
        ("setting", a.settings, b.settings),
        ("made by", _lasting(a.made_by), _lasting(b.made_by)),
        ("figure", a.metrics, b.metrics),
    ):
        for name, x, y in _compare_values(left, right):
            yield Difference(where=where, what=f"{what} {name}", first=x, second=y)


def _source(node: Node) -> str:
    return f"{node.uri} ({short(node.fingerprint)})"


def _lasting(made_by: Mapping[str, Any]) -> dict[str, Any]:
    """Code and image; that two runs were at different times goes without saying."""
    return {key: value for key, value in made_by.items() if key in ("clozeflow", "code", "image")}


def _compare_values(
    left: Mapping[str, Any], right: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    for name in [*left, *(name for name in right if name not in left)]:
        x, y = left.get(name, _ABSENT), right.get(name, _ABSENT)
        if x != y:
            yield name, x, y
