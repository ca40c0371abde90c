"""Pushes the images and records their digests, for `compile.py --images`.

    python images/push.py NAME [--builder docker|podman|buildah] [--output images.json]

NAME is that of the images without a tag, as in `make images IMAGE=NAME`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from clozeflow.errors import UserError

ROLES = {"cpu": "cpu", "tpu": "tpu", "tpu_pod": "tpu-pod", "preflight": "preflight"}
"""The role that an image plays in `compile.py`, and its tag."""
BUILDERS = ("docker", "podman", "buildah")


def main() -> None:
    """Pushes each image that there is, and writes down its digest."""
    options = _parser().parse_args()
    try:
        _check(options)
        digests = {
            role: f"{options.name}@{_push(options, f'{options.name}:{ROLES[role]}')}"
            for role in options.roles
        }
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    options.output.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    print(f"{options.output}: {', '.join(digests)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", help="of the images, without a tag")
    parser.add_argument(
        "--builder", choices=BUILDERS, default="docker", help="what has the images and pushes them"
    )
    parser.add_argument(
        "--roles",
        nargs="+",
        choices=tuple(ROLES),
        default=["cpu", "tpu", "preflight"],
        help="the images to push (cpu tpu preflight)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("images.json"), help="for the digests (images.json)"
    )
    parser.add_argument("--push-flag", action="append", default=[], help="for the builder's push")
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuses what would fail only after a push, or that the builder would say in its own words."""
    last = options.name.rpartition("/")[2]
    if not last or ":" in last or "@" in last:
        raise UserError(
            "NAME",
            "is no image's name without a tag",
            got=repr(options.name),
            fix="Give it as to `make images IMAGE=NAME`: the tags are those of the roles.",
        )
    if options.name != options.name.lower():
        raise UserError(
            "NAME",
            "has upper-case letters, which no registry takes",
            got=options.name,
            expected=options.name.lower(),
            fix="Build and push under that name.",
        )
    if options.output.is_dir() or not options.output.absolute().parent.is_dir():
        raise UserError(
            f"--output {options.output}",
            "cannot be written: it is a folder, or its folder is not there",
            fix="Give a file in a folder that is there. Nothing was pushed.",
        )


def _push(options: argparse.Namespace, image: str) -> str:
    """Pushes an image and returns its digest."""
    if options.builder == "docker":
        return _push_docker(options, image)
    return _push_with_digest_file(options, image)


def _push_docker(options: argparse.Namespace, image: str) -> str:
    _run(["docker", "push", *options.push_flag, image], image)
    template = '{{join .RepoDigests "\\n"}}'
    shown = _run(["docker", "inspect", "--format", template, image], image, subprocess.PIPE)
    digests = [digest for digest in shown.split() if digest.startswith(f"{options.name}@")]
    if not digests:
        raise UserError(
            image,
            "was pushed, and docker knows no digest of it",
            got=repr(shown.strip()),
            expected=f"{options.name}@sha256:…",
            fix="Give the name with its registry, as docker itself writes it.",
        )
    return digests[0].partition("@")[2]


def _push_with_digest_file(options: argparse.Namespace, image: str) -> str:
    with tempfile.NamedTemporaryFile("r") as file:
        command = [options.builder, "push", *options.push_flag, "--digestfile", file.name, image]
        _run(command, image)
        return Path(file.name).read_text(encoding="utf-8").strip()


def _run(command: Sequence[str], image: str, output: int | None = None) -> str:
    """Runs a builder's command; what it says of an error stays on the screen."""
    try:
        done = subprocess.run(command, stdout=output, text=True, check=False)
    except OSError as error:
        others = " or ".join(builder for builder in BUILDERS if builder != command[0])
        raise UserError(
            f"--builder {command[0]}",
            f"cannot be started: {error.strerror}",
            fix=f"Install {command[0]}, or give --builder {others}.",
        ) from None
    if done.returncode:
        raise UserError(
            image,
            f"`{' '.join(command[:2])}` failed, for what it says above",
            got=f"exit code {done.returncode}",
            fix="Build the image (make images), log in to its registry, and run this again.",
        )
    return done.stdout or ""


if __name__ == "__main__":
    main()
