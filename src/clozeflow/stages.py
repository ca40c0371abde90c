"""What happens around each stage's work: check, reuse, work, finish.

A stage is a function in `<package>.stage` that takes `(config, inputs, output)` and returns an
`Outcome`. It writes its files below `output`; the manifest is written here, last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import clozeflow
from clozeflow import artifacts, engine, storage
from clozeflow.artifacts import Artifact, ArtifactType, FileEntry, InputRef, Manifest, Split
from clozeflow.cache import StageCache
from clozeflow.config import StageConfig
from clozeflow.errors import UserError
from clozeflow.locking import only_run
from clozeflow.registry import Stage
from clozeflow.verification import check_at_once

logger = logging.getLogger(__name__)

WORK_FOLDER = ".work"
"""Below an unfinished artifact: what a stage needs to go on after it was killed."""

_MARKERS = (f"{WORK_FOLDER}/key", f"{WORK_FOLDER}/asked.json")
"""What says that a folder was begun, and with which settings."""

REPORT, SHORT_REPORT, CLASSIFICATION = "report.html", "report.md", "classification.json"
"""In the artifact's folder: what a component's outputs of KFP's own types HTML, Markdown and
ClassificationMetrics are made from."""

_PROVISIONAL = ".provisional"
"""Beside the manifest of what came of an accident: names the stage, which does it again."""

_FORKED = "forked "
"""Before the work key of what other settings have begun."""


class Begun(enum.Enum):
    """How the work in an output folder was begun."""

    PLAINLY = enum.auto()
    """With the settings asked for, now or earlier."""
    FORKED = enum.auto()
    """With others: the result is not what the settings alone would make."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a stage says of the work it did; the manifest is made from it."""

    splits: Mapping[str, Split] = dataclasses.field(default_factory=dict)
    """Files that the stage hashed and counted itself; every other file is found and hashed."""
    properties: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    auxiliary: tuple[str, ...] = ()
    """Files, or folders ending in "/", that hold times, logs or pictures: not fingerprinted."""
    may_be_reused: bool = True
    """False for what came of an accident: the same command makes another attempt."""


def run_stage(
    stage: Stage,
    config: StageConfig,
    *,
    inputs: Mapping[str, str],
    output: str,
    cache: StageCache | None = None,
) -> Manifest:
    """Runs a stage, or finds that its work is done already.

    Args:
        stage: Which one.
        config: Its settings.
        inputs: The folder of each input artifact, by the input's name; an optional one may be
            missing or empty.
        output: The folder of the artifact to make. A finished artifact there is returned if it
            is the one asked for, and refused if it is another; an unfinished one is completed.
        cache: Where finished work is looked up by its key and remembered.

    Raises:
        UserError: An input is not what the stage reads or not whole, the folder holds something
            else, or another run is at work in it.
    """
    if not output.strip():
        raise UserError("--output", "is empty", fix="Name the folder of the artifact to make.")
    config.check_locations([*filter(None, inputs.values()), output])
    if not _stands(output, stage):
        engine.start_early(config, f"clozeflow.{stage.package}.stage")
    cache = None if stage.acts_outside else cache
    opened = _open_inputs(stage, inputs)
    _check_chain(opened, stage.free_inputs)
    if stage.has_checks:
        stage.function("check_inputs", module="checks")(config, opened, output)
    for artifact in opened.values():
        check_at_once(artifact)
    refs = _input_refs(stage, config, opened)
    key = work_key(stage, config, refs)
    if _stands(output, stage):
        return _finished(output, stage, config, refs, key, cache)
    with only_run(output):
        if _stands(output, stage):  # made by a run that was at work until now
            return _finished(output, stage, config, refs, key, cache)
        return _work(stage, config, opened, refs, key, output, cache)


def _work(
    stage: Stage,
    config: StageConfig,
    opened: Mapping[str, Artifact],
    refs: tuple[InputRef, ...],
    key: str,
    output: str,
    cache: StageCache | None,
) -> Manifest:
    """Makes the artifact in a folder that no other run works in."""
    if _is_provisional(output, stage):
        provisional = storage.join(output, _PROVISIONAL)
        _throw_away(output, provisional)
        storage.remove_file(provisional)
    if _start(output, key, stage, config, refs) is Begun.FORKED:
        key, cache = _FORKED + key, None  # not what these settings alone would make
    if cache and (earlier := cache.restore(key, output, inputs=refs, keep=WORK_FOLDER)):
        storage.remove_folder(work_folder(output))
        logger.info("%s: taken from an earlier run", stage.name)
        return earlier
    try:
        with storage.refusals_in_words(output):
            outcome = stage.function("run")(config, opened, output)
    except UserError:
        _forget_if_nothing_was_done(output)
        raise
    manifest = _manifest(stage, config, refs, key, outcome, output)
    if not outcome.may_be_reused:
        storage.write_text(storage.join(output, _PROVISIONAL), stage.name)
    artifacts.write_manifest(output, manifest)
    storage.remove_folder(work_folder(output))
    if cache and outcome.may_be_reused:
        cache.remember(key, output)
    return manifest


def work_key(stage: Stage, config: StageConfig, refs: tuple[InputRef, ...]) -> str:
    """What is asked for, as one hash: stage, settings, inputs and version of clozeflow."""
    return artifacts.fingerprint_of(
        {
            "stage": stage.name,
            "config": config.shaping_settings(),
            "inputs": [[ref.name, ref.type, ref.fingerprint] for ref in refs],
            "clozeflow": clozeflow.__version__,
        }
    )


@functools.cache
def code_fingerprint() -> str:
    """A hash of the source files of this package."""
    root, digest = Path(clozeflow.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return "sha256:" + digest.hexdigest()


def work_folder(output: str) -> str:
    """A folder for what a stage keeps until it has finished, below its output."""
    return storage.join(output, WORK_FOLDER)


def unit_ledger(output: str, phase: str) -> str:
    """The ledger (see `engine.run_units`) of one phase of a stage's work."""
    return storage.join(work_folder(output), engine.LEDGER_FOLDER, phase)


def _open_inputs(stage: Stage, inputs: Mapping[str, str]) -> dict[str, Artifact]:
    wanted = {
        **stage.inputs,
        **{name: kind for name, kind in stage.optional_inputs.items() if inputs.get(name)},
    }
    return {
        name: artifacts.open_dataset(inputs[name], name=name)
        if kind is ArtifactType.DATASET
        else artifacts.open_artifact(inputs[name], kind, name=name)
        for name, kind in wanted.items()
    }


def _input_refs(
    stage: Stage, config: StageConfig, opened: Mapping[str, Artifact]
) -> tuple[InputRef, ...]:
    refs = [
        InputRef(name=name, type=a.manifest.type, fingerprint=a.manifest.fingerprint, uri=a.uri)
        for name, a in opened.items()
    ]
    if stage.has_sources and config.has_sources():
        refs += stage.function("source_refs")(config)
    return tuple(refs)


def _check_chain(opened: Mapping[str, Artifact], free_inputs: frozenset[str]) -> None:
    """Refuses artifacts that name different ancestors: shards of another tokenizer, say."""
    for child_name, child in opened.items():
        for ref in child.manifest.inputs:
            other = None if ref.name in free_inputs else opened.get(ref.name)
            if other and other.manifest.fingerprint != ref.fingerprint:
                raise UserError(
                    f"--{ref.name} {other.uri}",
                    f"is not the {ref.name} that --{child_name} {child.uri} was made with",
                    got=other.manifest.fingerprint[:19],
                    expected=ref.fingerprint[:19],
                    fix=f"Give the {ref.name} that was used (then at {ref.uri}).",
                )


def _stands(output: str, stage: Stage) -> bool:
    """Whether the folder holds an artifact that is not to be made again."""
    return artifacts.is_finished(output) and not _is_provisional(output, stage)


def _is_provisional(output: str, stage: Stage) -> bool:
    marker = storage.join(output, _PROVISIONAL)
    return storage.is_file(marker) and storage.read_text(marker) == stage.name


def _finished(
    output: str,
    stage: Stage,
    config: StageConfig,
    refs: tuple[InputRef, ...],
    key: str,
    cache: StageCache | None,
) -> Manifest:
    """The artifact that is there already, if it is the one asked for."""
    manifest = artifacts.read_manifest(output)
    if manifest.work_key not in (key, _FORKED + key):
        raise UserError(
            output,
            f"holds another artifact: {'; '.join(_differences(manifest, stage, config, refs))}",
            fix="Give another --output, or delete the folder.",
        )
    logger.info("%s: already done in %s", stage.name, output)
    with contextlib.suppress(OSError):  # the folder may be read-only by now
        storage.remove_folder(work_folder(output))  # left by a run killed at its very end
    if cache:
        cache.remember(key, output)
    return manifest


def _differences(
    manifest: Manifest, stage: Stage, config: StageConfig, refs: tuple[InputRef, ...]
) -> list[str]:
    if manifest.stage != stage.name:
        return [f"it was made by {manifest.stage}, not {stage.name}"]
    found = _changes(manifest.shaping_config, config.shaping_settings())
    before = {ref.name: ref.fingerprint for ref in manifest.inputs}
    found += _other_inputs(before, _fingerprints(refs))
    return found or ["made by another version of clozeflow"]


def _changes(there: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} is {there.get(name)!r}, asked for {asked.get(name)!r}"
        for name in sorted({*there, *asked})
        if there.get(name) != asked.get(name)
    ]


def _other_inputs(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = sorted({*before, *now})
    return [f"another {name}" for name in names if before.get(name) != now.get(name)]


def _fingerprints(refs: tuple[InputRef, ...]) -> dict[str, str]:
    return {ref.name: ref.fingerprint for ref in refs}


def _start(
    output: str, key: str, stage: Stage, config: StageConfig, refs: tuple[InputRef, ...]
) -> Begun:
    """Prepares the folder: what was begun for the same key is kept.

    Raises:
        UserError: The folder holds what clozeflow did not begin, or work with other settings of
            a stage that refuses them.
    """
    storage.remove_temporaries(output)
    marker, asked_file = (storage.join(output, name) for name in _MARKERS)
    begun = Begun.PLAINLY
    if storage.is_file(marker):
        before = storage.read_text(marker)
        if before in (key, _FORKED + key):
            return Begun.PLAINLY if before == key else Begun.FORKED
        if stage.refuses_other_settings:
            _refuse_unless_forked(output, storage.read_text(asked_file), config, refs)
            begun = Begun.FORKED
        else:
            logger.warning("%s: unfinished work with other settings is thrown away", output)
            _throw_away(output, marker)
    elif _others_files(output):
        raise UserError(
            output,
            "is not empty and was not begun by clozeflow",
            fix="Give an --output that is empty or does not exist.",
        )
    asked = {"settings": config.shaping_settings(), "inputs": _fingerprints(refs)}
    storage.write_text(asked_file, json.dumps(asked))
    storage.write_text(marker, key if begun is Begun.PLAINLY else _FORKED + key)
    return begun


def _forget_if_nothing_was_done(output: str) -> None:
    """A run that was refused leaves no folder behind in which nothing is."""
    if set(storage.list_files(output)) <= set(_MARKERS):
        with contextlib.suppress(OSError):  # a mount cannot be removed
            storage.remove_folder(output)


def _others_files(output: str) -> list[str]:
    """What is in the folder besides a work folder, which a run may have begun without its key."""
    return [n for n in storage.list_files(output) if not n.startswith(f"{WORK_FOLDER}/")]


def _throw_away(output: str, marker: str) -> None:
    """Empties the folder but for what says that it is ours: a kill leaves it ours.

    The folder itself stays: this run's lock is on it.
    """
    for name in storage.list_files(output):
        if storage.join(output, name) != marker:
            storage.remove_file(storage.join(output, name))


def _refuse_unless_forked(
    output: str, asked_before: str, config: StageConfig, refs: tuple[InputRef, ...]
) -> None:
    before = json.loads(asked_before)
    found = _changes(before["settings"], config.shaping_settings())
    found += _other_inputs(before["inputs"], _fingerprints(refs))
    what = "; ".join(found) or "another version of clozeflow"
    if getattr(config, "fork", False):
        logger.warning("%s: going on with work begun otherwise: %s", output, what)
        return
    raise UserError(
        output,
        f"holds unfinished work that was begun otherwise: {what}",
        fix="Give the settings that it was begun with, another --output, or --fork to go on from "
        "it with the new ones.",
    )


def _manifest(
    stage: Stage,
    config: StageConfig,
    refs: tuple[InputRef, ...],
    key: str,
    outcome: Outcome,
    output: str,
) -> Manifest:
    return Manifest(
        type=stage.output_type,
        stage=stage.name,
        config=config.to_dict(),
        shaping_config=config.shaping_settings(),
        inputs=refs,
        splits=outcome.splits,
        files=_other_files(outcome, output),
        properties=outcome.properties,
        metrics=outcome.metrics,
        parameters=outcome.parameters,
        work_key=key,
        code=code_fingerprint(),
    )


def _other_files(outcome: Outcome, output: str) -> tuple[FileEntry, ...]:
    counted = {file.path for split in outcome.splits.values() for file in split.files}
    names = [
        name
        for name in storage.list_files(output)
        if name not in counted and not name.startswith(f"{WORK_FOLDER}/")
    ]
    return tuple(
        artifacts.file_entry(output, name, auxiliary=_matches(name, outcome.auxiliary))
        for name in names
    )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(name.startswith(p) if p.endswith("/") else name == p for p in patterns)
