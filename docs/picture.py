"""Draws the picture in docs/architecture.md from the code's imports.

    python docs/picture.py            draws it anew
    python docs/picture.py --check    exits with 1 where the picture is not the code's

A node is a room: a package, or modules that belong together. An arrow says that one imports from
the other, wherever in a file that stands (but for the eyes of type checkers alone); arrows that
follow from others are left out.
"""

from __future__ import annotations

import argparse
import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "```mermaid\n", "```\n"
NO_IMPORT = "    components -. names a command of the image .-> entries"
"""The one arrow that is no import."""
TREES = ("compile.py", "pipelines", "components", "src/clozeflow")
ROOMS = {
    "entries": frozenset({"__main__", "cli", "component", "beam_boot"}),
    "stages": frozenset({"stages", "registry", "verification", "run_summary"}),
}
"""Modules of `src/clozeflow` itself: where a process begins, and what happens around a stage's
work. The others are `foundations`."""
LABELS = {
    "compile": "compile.py",
    "entries": "cli · component · beam_boot",
    "stages": "stages · registry",
    "settings": "every package's config.py and what it reads values with",
    "foundations": "artifacts · storage · engine · cache · report · errors",
}


def main() -> None:
    """Writes the picture, or compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    before, old, after = _cut(PAGE.read_text())
    new = picture(arrows())
    if is_check and new != old:
        sys.exit("docs/architecture.md: the picture is not the code's. Run: make compile")
    if not is_check:
        PAGE.write_text(before + new + after)


def arrows() -> set[tuple[str, str]]:
    """Who imports from whom, as pairs of rooms."""
    found = set()
    for path in _files():
        here = _room(_module(path))
        there = {_room(name) for name in _imports(path)}
        found |= {(here, room) for room in there if room and room != here}
    return found


def picture(pairs: set[tuple[str, str]]) -> str:
    """The arrows in Mermaid's language, but those that follow from others."""
    kept = sorted(pair for pair in pairs if not _follows(pair, pairs))
    lines = [f"    {start}[{_label(start)}] --> {end}[{_label(end)}]" for start, end in kept]
    return "\n".join(["flowchart TD", *lines, NO_IMPORT, ""])


def _cut(page: str) -> tuple[str, str, str]:
    start = page.index(BEGIN) + len(BEGIN)
    end = page.index(END, start)
    return page[:start], page[start:end], page[end:]


def _files() -> Iterator[Path]:
    for tree in TREES:
        path = ROOT / tree
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part not in ("src", "__init__"))


def _imports(path: Path) -> Iterator[str]:
    """The names that a file imports, but those that only type checkers read."""
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        # A config's method may call its package's checks: that is the package's work, begun there.
        if isinstance(node, ast.FunctionDef) and path.name == "config.py":
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _room(module: str) -> str:
    """The node of a module; "" for one that is not ours."""
    first, *rest = module.split(".")
    if first != "clozeflow":
        return first if first in ("compile", "pipelines", "components") else ""
    if not rest:
        return "foundations"
    if (ROOT / "src" / "clozeflow" / rest[0]).is_dir():
        is_setting = any(module.startswith(setting) for setting in _settings())
        return "settings" if is_setting else rest[0]
    return next((room for room, modules in ROOMS.items() if rest[0] in modules), "foundations")


@functools.cache
def _settings() -> frozenset[str]:
    """Every package's `config`, and the modules of the same package that it reads values with."""
    found = set()
    for path in (ROOT / "src" / "clozeflow").glob("*/config.py"):
        module = _module(path)
        package = module.removesuffix("config")
        found |= {module, *(n.rpartition(".")[0] for n in _imports(path) if n.startswith(package))}
    return frozenset(found)


def _label(room: str) -> str:
    return LABELS.get(room, room)


def _follows(pair: tuple[str, str], pairs: set[tuple[str, str]]) -> bool:
    """Whether there is a way round, by rooms in between, so that the arrow says nothing new."""
    start, end = pair
    seen, todo = set(), [other for first, other in pairs if first == start and other != end]
    while todo:
        room = todo.pop()
        if room == end:
            return True
        if room not in seen and room != start:
            seen.add(room)
            todo += [other for first, other in pairs if first == room]
    return False


if __name__ == "__main__":
    main()
