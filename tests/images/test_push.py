"""`images/push.py`, with a script in the place of the container tool."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "a" * 64
DOCKER = f"""#!/bin/sh
echo "$@" >> calls
[ "$1" = inspect ] && echo r.example/clozeflow@{DIGEST}
exit 0
"""
FAILING = """#!/bin/sh
echo "$@" >> calls
echo denied: requested access to the resource is denied >&2
exit 7
"""


@pytest.fixture
def push(tmp_path):
    """Runs it in a folder of its own, with these tools alone."""

    def run(*arguments, **tools):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in tools.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        environment = {
            **os.environ,
            "PATH": str(folder),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path]),
        }
        return subprocess.run(
            [sys.executable, str(ROOT / "images" / "push.py"), *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_digests_are_written_by_role(push, tmp_path):
    done = push("r.example/clozeflow", "--roles", "cpu", "tpu_pod", docker=DOCKER)
    assert done.returncode == 0, done.stderr
    image = f"r.example/clozeflow@{DIGEST}"
    assert json.loads((tmp_path / "images.json").read_text()) == {"cpu": image, "tpu_pod": image}
    assert "push r.example/clozeflow:tpu-pod" in (tmp_path / "calls").read_text()


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah"])
def test_a_push_that_fails_is_one_message(push, tmp_path, builder):
    done = push("r.example/clozeflow", "--builder", builder, **{builder: FAILING})
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    said, message = done.stderr.splitlines()
    assert said.startswith("denied: ")
    assert message.startswith(f"error: r.example/clozeflow:cpu: `{builder} push` failed")
    assert "(got exit code 7)" in message
    assert not (tmp_path / "images.json").exists()


def test_a_push_without_a_digest_is_one_message(push):
    done = push("clozeflow", docker=DOCKER)  # docker names the digest by another registry
    assert done.returncode == 2
    assert "docker knows no digest of it" in done.stderr


def test_a_tool_that_is_missing_is_one_message(push):
    done = push("r.example/clozeflow", "--builder", "podman")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --builder podman: cannot be started: No such file")
    assert "--builder docker or buildah" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.example/ClozeFlow"], "expected r.example/clozeflow"),
        (["r.example/clozeflow:cpu"], "without a tag"),
        (["r.example/clozeflow", "--output", "nowhere/images.json"], "Nothing was pushed"),
    ],
)
def test_what_cannot_go_well_is_refused_before_anything_is_called(
    push, tmp_path, arguments, message
):
    done = push(*arguments, docker=DOCKER)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert not (tmp_path / "calls").exists()
