"""Configurations and weights from outside: a folder, a file, or a name on the Hub."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clozeflow import artifacts, storage
from clozeflow.artifacts import InputRef
from clozeflow.errors import UserError
from clozeflow.training.config import TrainConfig

CONFIG = "config.json"
_WEIGHTS = ("model.safetensors", "tf_model.h5")


def source_refs(config: TrainConfig) -> tuple[InputRef, ...]:
    """What the settings read from outside, hashed; on the Hub its commit stands for it."""
    given = {"model_config": config.model_config, "init_from": config.init_from}
    return tuple(_ref(name, where) for name, where in given.items() if where)


def _ref(name: str, where: str) -> InputRef:
    """A model of ours by its manifest, so that its own history is part of this one's."""
    if not storage.is_file(where) and artifacts.is_finished(where):
        manifest = artifacts.read_manifest(where)
        return InputRef(name=name, type=manifest.type, fingerprint=manifest.fingerprint, uri=where)
    return InputRef(name=name, type="model", fingerprint=_fingerprint(name, where), uri=where)


def _fingerprint(name: str, where: str) -> str:
    names = (CONFIG,) if name == "model_config" else (CONFIG, *_WEIGHTS)
    if storage.is_file(where):
        return "sha256:" + artifacts.hash_file(where)[1]
    files = [n for n in names if storage.is_file(storage.join(where, n))]
    if files:
        return artifacts.fingerprint_of(
            {n: artifacts.hash_file(storage.join(where, n))[1] for n in files}
        )
    if _may_be_on_hub(where):
        with _hub_errors(name, where):
            from huggingface_hub import HfApi

            return f"hub:{HfApi().model_info(where).sha}"
    raise _not_there(name, where)


@contextlib.contextmanager
def model_folder(name: str, where: str) -> Iterator[Path]:
    """A local folder with a model's configuration and, for `init_from`, its weights.

    Args:
        name: The setting: `model_config` or `init_from`.
        where: Its value.

    Raises:
        UserError: There is nothing of that kind there.
    """
    with tempfile.TemporaryDirectory(prefix="clozeflow-") as copy:
        if storage.is_file(where):
            Path(copy, CONFIG).write_bytes(storage.read_bytes(where))
            yield Path(copy)
        elif storage.is_file(storage.join(where, CONFIG)):
            with storage.local_folder(where) as folder:
                yield folder
        elif _may_be_on_hub(where):
            yield _download(name, where)
        else:
            raise _not_there(name, where)


def _download(name: str, where: str) -> Path:
    from huggingface_hub import snapshot_download

    with _hub_errors(name, where):
        if name == "model_config":
            return Path(snapshot_download(where, allow_patterns=[CONFIG]))
        folder = Path(snapshot_download(where, allow_patterns=[CONFIG, _WEIGHTS[0]]))
        if not (folder / _WEIGHTS[0]).is_file():  # one kind is enough, and each may be large
            folder = Path(snapshot_download(where, allow_patterns=[CONFIG, _WEIGHTS[1]]))
        return folder


def _may_be_on_hub(where: str) -> bool:
    is_path = storage.is_remote(where) or where.startswith((".", "/", "~")) or where.count("/") > 1
    return not is_path and not Path(where).exists()


@contextlib.contextmanager
def _hub_errors(name: str, where: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the Hub's client raises many kinds
        raise UserError(
            f"--{name.replace('_', '-')} {where}",
            f"is no folder here, and the Hub did not give it: {str(error).splitlines()[0]}",
            fix="Check the path, the name and the network.",
        ) from error


def _not_there(name: str, where: str) -> UserError:
    expected: Any = f"a {CONFIG}, or a folder with one"
    return UserError(
        f"--{name.replace('_', '-')} {where}",
        "is no model",
        expected=expected,
        fix="Give a folder that `from_pretrained` opens, or a name on the Hub.",
    )
