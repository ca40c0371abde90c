"""Pushes the images and records their digests, for `compile.py --images`.

    python images/push.py NAME [--builder docker|podman|buildah] [--output images.json]

NAME is that of the images without a tag, as in `make images IMAGE=NAME`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

ROLES = {"cpu": "cpu", "tpu": "tpu", "tpu_pod": "tpu-pod", "preflight": "preflight"}
"""The role that an image plays in `compile.py`, and its tag."""


def main() -> None:
    """Pushes each image that there is, and writes down its digest."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name")
    parser.add_argument("--builder", choices=("docker", "podman", "buildah"), default="docker")
    parser.add_argument(
        "--roles", nargs="+", choices=tuple(ROLES), default=["cpu", "tpu", "preflight"]
    )
    parser.add_argument("--output", type=Path, default=Path("images.json"))
    parser.add_argument("--push-flag", action="append", default=[], help="for the builder's push")
    options = parser.parse_args()
    push = _push_docker if options.builder == "docker" else _push_with_digest_file
    digests = {
        role: f"{options.name}@{push(options, f'{options.name}:{ROLES[role]}')}"
        for role in options.roles
    }
    options.output.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    print(f"{options.output}: {', '.join(digests)}")


def _push_docker(options: argparse.Namespace, image: str) -> str:
    subprocess.run(["docker", "push", *options.push_flag, image], check=True)
    template = '{{join .RepoDigests "\\n"}}'
    shown = subprocess.check_output(["docker", "inspect", "--format", template, image], text=True)
    return next(d for d in shown.split() if d.startswith(f"{options.name}@")).partition("@")[2]


def _push_with_digest_file(options: argparse.Namespace, image: str) -> str:
    with tempfile.NamedTemporaryFile("r") as file:
        command = [options.builder, "push", *options.push_flag, "--digestfile", file.name, image]
        subprocess.run(command, check=True)
        return Path(file.name).read_text(encoding="utf-8").strip()


if __name__ == "__main__":
    main()
