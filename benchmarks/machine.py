"""The machine and the versions that a benchmark ran on, in one line.

python benchmarks/machine.py
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = (
    "tensorflow",
    "tensorflow-cpu",
    "transformers",
    "tokenizers",
    "sentencepiece",
    "datasets",
    "pyarrow",
    "numpy",
)


def describe() -> str:
    """Processors, memory, and what is installed of the packages that the time goes to."""
    versions = [f"{name} {version}" for name in _PACKAGES if (version := _version(name))]
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return ", ".join(
        [
            f"{len(os.sched_getaffinity(0))} cores ({_processor()})",
            f"{gigabytes:.0f} GB",
            f"Linux {platform.release().split('-')[0]}",
            f"Python {platform.python_version()}",
            *versions,
        ]
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    print(describe())
