"""What a benchmark is pointed at, looked at before anything is imported or made.

A wrong path is one line at once, not a traceback of another process after a minute.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def check_text(path: str | Path) -> None:
    """Ends the program unless this is a file with something in it."""
    if not Path(path).is_file() or not Path(path).stat().st_size:
        sys.exit(f"{path}: is no file with text in it")


def check_artifact(path: str | Path, kind: str) -> None:
    """Ends the program unless this is the folder of such an artifact, for example `Shards`."""
    try:
        found = json.loads(Path(path, "manifest.json").read_text(encoding="utf-8"))["type"]
    except (OSError, ValueError, KeyError, TypeError):
        found = ""
    if found != f"clozeflow.{kind}":
        of_what = f", but of {found}" if found else ""
        sys.exit(f"{path}: is no folder of {kind} (with a manifest.json){of_what}")


def check_model(path: str | Path) -> None:
    """Ends the program unless this is the folder of a model, ours or another."""
    if not Path(path, "config.json").is_file():
        sys.exit(f"{path}: is no folder of a model (with a config.json)")
