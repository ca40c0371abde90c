"""Progress bars: shown after two seconds, on a terminal alone."""

from __future__ import annotations

import sys

from tqdm import tqdm


def progress(*, total: int, description: str, initial: int = 0, unit: str = "it") -> tqdm:
    """A bar over `total` units; silent when standard error is no terminal."""
    return tqdm(
        total=total,
        initial=initial,
        desc=description,
        unit=unit,
        delay=2,
        dynamic_ncols=True,
        disable=not sys.stderr.isatty(),
    )
