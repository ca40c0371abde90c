"""`clozeflow` and `python -m clozeflow`: the command line, interrupted at any moment in one line.

It imports next to nothing, for an interrupt during the imports is one of the moments; and worker
processes, which import the program's main module again, have less to import.
"""

import sys

from clozeflow.errors import INTERRUPTED


def main() -> None:
    """Runs the command asked for."""
    try:
        from clozeflow import cli

        cli.main()
    except KeyboardInterrupt:
        print("interrupted: the same command goes on where it stopped", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
