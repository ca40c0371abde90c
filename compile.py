"""Compiles every component and pipeline.

python compile.py                               components, and pipelines for any KFP
python compile.py --target vertex --tpu v5e-4   training as a custom job on a TPU slice
python compile.py --check                       fails where what is committed is stale
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from clozeflow.errors import UserError
from pipelines import compilation
from pipelines.compilation import Target
from pipelines.lint import lint

ROOT = Path(__file__).parent


def main() -> None:
    """Compiles, or checks, as asked."""
    options = _parser().parse_args()
    try:
        if options.check:
            _check()
        else:
            _compile(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--target",
        type=Target,
        choices=tuple(Target),
        default=Target.ANY,
        help="what runs the pipelines: any KFP, Vertex AI, or KFP on GKE (any)",
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build", help="folder (build)")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    compilation.add_image_options(parser)
    compilation.add_job_options(parser)
    return parser


def _compile(options: argparse.Namespace) -> None:
    images = compilation.chosen_images(options)
    variant = compilation.chosen_variant(options)
    for path in compilation.write_components(ROOT):
        print(path.relative_to(ROOT))
    for path in compilation.write_pipelines(options.output, variant, images):
        print(path)
        if options.target is Target.VERTEX:
            for finding in lint(path.read_text(encoding="utf-8")):
                print(f"  {finding}", file=sys.stderr)


def _check() -> None:
    stale = compilation.stale_files(ROOT)
    for path in stale:
        print(f"{path.relative_to(ROOT)} is stale", file=sys.stderr)
    if stale:
        sys.exit("Run: python compile.py")


if __name__ == "__main__":
    main()
