"""Builds the images and runs every stage of the pipeline inside them, with no container engine.

    sudo python images/test.py [--mirror URL] [--work FOLDER] [--build-flag FLAG …]

The base image is made by debootstrap from a Debian mirror; buildah builds ours on it, by chroot.
Then the pretrain pipeline runs on a small text, each task in its image by its real entry
point. Ends with a table of the images' sizes. Needs root, and Debian's debootstrap and buildah.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = "clozeflow-base"
POD_BASE = "clozeflow-pod-base"
POD = "tpu-pod"
DATAFLOW = "dataflow"
PREFLIGHT = "preflight"
TARGETS = ("cpu", "tpu", POD, DATAFLOW, PREFLIGHT)
DEBIAN_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
ENVIRONMENT = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
POD_ENTRY_POINT = ["/bin/sh", "-c", 'echo "started on every host"; exec "$@"', "pod"]
"""A stand-in for what Vertex's base image for TPU pods does, which cannot be had without Google."""
_SMALL = {
    "a command that answers": "clozeflow --help",
    "no kfp": "! python3 -c 'import kfp' 2>/dev/null",
    "no compiler": "! command -v gcc cc g++ clang",
}
_OUR_USER = {"a user who is not root": "test $(id -u) != 0"}
_BEAM = {
    "a worker's program that names what it wants": (
        "/opt/apache/beam/boot 2>&1 | grep -q -e --provision_endpoint"
    ),
    "a stage by Beam's own runner": (
        "for i in $(seq 3000); do echo document $i tells of number $((i * i)); done > /tmp/t.txt"
        " && clozeflow corpus --source /tmp/t.txt --output /tmp/corpus --engine beam"
        " && clozeflow verify /tmp/corpus"
    ),
}
_TPU_COMPILER = {
    "a step that fits a slice": (
        "clozeflow preflight --tpu v5e-4 --require --output /tmp/preflight"
        " | grep -q 'verdict: fits'"
    )
}
PROBES = {
    "cpu": _SMALL | _OUR_USER,
    "tpu": _SMALL | _OUR_USER,
    POD: _SMALL,
    DATAFLOW: _SMALL | _BEAM,
    PREFLIGHT: _SMALL | _OUR_USER | _TPU_COMPILER,
}


def main() -> None:
    """Builds, probes, runs, and says the sizes."""
    options = _parser().parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    make_bases(options.work, options.mirror or apt_mirror())
    for target in options.targets:
        build(target, options.build_flag)
        probe(target)
    if {"cpu", "tpu"} <= set(options.targets):
        run_pipeline(options.work)
    for target in options.targets:
        print(f"{target:8} {size_mb(f'clozeflow:{target}'):7,.0f} MB")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mirror", help="a Debian mirror; by default this machine's own")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "images")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument(
        "--build-flag",
        action="append",
        default=[],
        help="for `buildah build`, such as --build-flag=--volume=/etc/pip.conf:/etc/pip.conf:ro",
    )
    return parser


def apt_mirror() -> str:
    """The mirror that this machine's own packages come from."""
    lines = subprocess.check_output(["apt-get", "indextargets", "--format", "$(REPO_URI)"])
    return lines.decode().split()[0]


def make_bases(work: Path, mirror: str) -> None:
    """The base image of Debian's Python, and one that stands in for Vertex's base for TPU pods."""
    if not exists(BASE):
        root = work / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={DEBIAN_PACKAGES}"]
        subprocess.run([*command, "bookworm", str(root), mirror], check=True, stdout=sys.stderr)
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(root), "/")
        buildah("commit", "--quiet", "--rm", container, BASE)
    if not exists(POD_BASE):
        container = buildah("from", BASE)
        buildah("config", "--entrypoint", json.dumps(POD_ENTRY_POINT), container)
        buildah("commit", "--quiet", "--rm", container, POD_BASE)


def build(target: str, flags: list[str]) -> None:
    """Builds one of the Dockerfile's targets."""
    bases = [f"--build-arg=BASE_IMAGE={BASE}", f"--build-arg=TPU_POD_BASE_IMAGE={POD_BASE}"]
    # Docker's format knows a health command, which OCI's does not.
    how = ["--format=docker", "--network=host", "--pull=never", "--layers"]
    buildah(
        "build", *how, *bases, *flags, f"--target={target}", f"--tag=clozeflow:{target}", str(ROOT)
    )


def probe(target: str) -> None:
    """Checks what must hold in an image."""
    container = buildah("from", f"clozeflow:{target}")
    try:
        for what, command in PROBES[target].items():
            buildah("run", container, "--", "sh", "-c", command)
            print(f"{target}: {what}", flush=True)
    finally:
        buildah("rm", container)
    if target == POD:
        config = json.loads(buildah("inspect", "--type=image", f"clozeflow:{target}"))
        assert config["OCIv1"]["config"]["Entrypoint"] == POD_ENTRY_POINT, config


def run_pipeline(work: Path) -> None:
    """The pretrain pipeline on a small text, each task in its image."""
    os.umask(0)  # the image's user writes into folders that this one makes
    runs, text = work / "runs", work / "text.txt"
    runs.mkdir(exist_ok=True)
    text.write_text("".join(f"document {i} tells of number {i * i}\n" for i in range(3000)))
    container = buildah("from", "clozeflow:cpu")
    enter = f"buildah run --volume {work}:{work} {container} --"
    parameters = [f'source=["{text}"]', "vocab_size=300", "seq_len=32", "num_train_steps=20"]
    command = [sys.executable, "-m", "pipelines", "run", "pretrain", "--output", str(runs)]
    try:
        subprocess.run(
            [*command, "--in-image", enter, "--param", *parameters],
            check=True,
            cwd=ROOT,
            env={**ENVIRONMENT, "CLOZEFLOW_CACHE": str(work / "cache")},
        )
    finally:
        buildah("rm", container)


def exists(image: str) -> bool:
    """Whether an image is there already."""
    return not subprocess.run(
        ["buildah", "inspect", "--type=image", image],
        env=ENVIRONMENT,
        check=False,
        capture_output=True,
    ).returncode


def size_mb(image: str) -> float:
    """The size of an image, uncompressed."""
    shown = buildah("images", "--format={{.Size}}", image).splitlines()[0]
    number, unit = re.fullmatch(r"([\d.]+) ([KMG]B)", shown).groups()
    return float(number) * {"KB": 1e-3, "MB": 1, "GB": 1e3}[unit]


def buildah(*arguments: str) -> str:
    """The last line that a buildah command prints, or all of it where that is JSON."""
    found = subprocess.run(
        ["buildah", *arguments], env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    return found if found.startswith("{") else (found.splitlines() or [""])[-1]


if __name__ == "__main__":
    main()
