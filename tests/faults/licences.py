"""Writes docs/licences.md: each package of a lock file with the licence that its metadata names.

python -m tests.faults.licences requirements/cpu.lock > docs/licences.md
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

_OWN = "its metadata names none"


def licence(metadata: importlib.metadata.PackageMetadata) -> str:
    """The licence, in the words of the newest field that the package fills."""
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = metadata.get_all("Classifier") or []
    found = [c.rsplit(" :: ", 1)[-1] for c in classifiers if c.startswith("License :: ")]
    text = (metadata.get("License") or "").strip().splitlines()
    return ", ".join(f for f in found if f != "OSI Approved") or "".join(text[:1])[:60] or _OWN


def main() -> None:
    """Prints the table; packages that are not installed here are named at its end."""
    lock = Path(sys.argv[1])
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock.read_text(), re.MULTILINE)
    lines = [f"# Licences of what `{lock}` installs", "", "Made by `tests/faults/licences.py`.", ""]
    lines += ["| package | version | licence |", "|---|---|---|"]
    missing = []
    for name, version in sorted(set(pinned)):
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
        else:
            lines.append(f"| {name} | {version} | {licence(metadata)} |")
    if missing:
        lines += ["", f"Not installed where this was made: {', '.join(missing)}."]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
