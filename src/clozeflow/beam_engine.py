"""Units of work as an Apache Beam pipeline: on Dataflow, Flink or Spark, or on Beam's runner here.

The pipeline carries numbers of units, and nothing else. The units themselves lie in one file in
the ledger's folder; a worker takes its unit from there, does the same work as a process of
the pool, and writes the result into the ledger itself. So jobs stay small however many units there
are, and what is finished stays finished, whatever becomes of the job.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import pickle
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions

from clozeflow import engine, storage
from clozeflow.engine import Workers
from clozeflow.errors import UserError

logger = logging.getLogger(__name__)

_LOCAL_RUNNERS = frozenset({"direct", "bundlebaseddirect", "switchingdirect", "fnapi", "prism"})
"""Runners that work on this machine, without the "Runner" that their names end in."""
_DEFAULT_RUNNER = "DirectRunner"
_ONE_UNIT_AT_ONCE = "--number_of_worker_harness_threads=1"
"""In each of a worker's processes: a unit takes a processor and some hundred MB."""
_REFUSAL = ".refusal"

Plan = tuple[Callable[[Any], Any], list[Any]]
"""A unit's function, and all units of a phase."""


def check_reach(beam_args: str, locations: Iterable[str]) -> None:
    """Refuses places of this machine where the runner works on others.

    Raises:
        UserError: The first such place, or options that Beam or the runner does not take.
    """
    options = pipeline_options(beam_args)
    for location in [] if _is_local(options) else locations:
        if not storage.is_remote(location):
            raise UserError(
                location,
                f"is on this machine, and the workers of {_runner(options)} are on others",
                expected="a location that all of them reach, gs://…",
                fix="Give gs:// locations for what is read and written, or a runner of this "
                f"machine (--beam-args=--runner={_DEFAULT_RUNNER}).",
            )
    _new_pipeline(options)


def run(
    work: Callable[[Any], Any],
    units: Sequence[Any],
    todo: Sequence[int],
    *,
    ledger: str,
    workers: Workers,
    description: str,
) -> None:
    """Does the units whose indices are in `todo`; their results are then in the ledger.

    Args:
        work: A module-level function.
        units: All units of this phase.
        todo: Which of them are to be done.
        ledger: The folder for results; workers write there.
        workers: The pipeline's options.
        description: The pipeline's step is called so.

    Raises:
        UserError: What a unit raised.
    """
    assert ledger, "Beam's workers hand their results back through the ledger"
    for name in _refusals(ledger):
        storage.remove_file(name)
    plan = _write_plan(ledger, (work, list(units)))
    options = pipeline_options(
        workers.beam_args, num_workers=workers.num_workers, num_units=len(todo)
    )
    logger.info("%s: %s units on %s", description, f"{len(todo):,}", _runner(options))
    try:
        with _new_pipeline(options) as pipeline:
            # Reshuffled, for else one worker would get all numbers, being so few bytes.
            numbers = pipeline | beam.Create(list(todo)) | beam.Reshuffle()
            _ = numbers | description >> beam.Map(functools.partial(do_unit, plan, ledger))
    finally:  # a user's error tells more than the failure of the job that came of it
        _raise_refusal(ledger)


def do_unit(plan: str, ledger: str, index: int) -> None:
    """One unit, on a worker.

    A user's error is written down and not raised: runners repeat what fails, which would not mend
    it.
    """
    work, units = _read_plan(plan)
    try:
        engine.record(ledger, index, work(units[index]))
    except UserError as error:
        storage.write_text(_refusal(ledger, index), json.dumps(_to_dict(error)))


def _write_plan(ledger: str, plan: Plan) -> str:
    """Writes what is to be done where workers find it; units share most of what they hold."""
    content = pickle.dumps(plan)
    location = storage.join(ledger, f"{hashlib.sha256(content).hexdigest()}.pickle")
    storage.write_bytes(location, content)
    return location


@functools.lru_cache(maxsize=1)
def _read_plan(location: str) -> Plan:
    content = storage.read_bytes(location)
    # Unpickling runs what it reads: only what this job wrote, whose hash the job itself names.
    if not location.endswith(f"/{hashlib.sha256(content).hexdigest()}.pickle"):
        raise UserError(
            location, "is not the plan that this job wrote", fix="Run the same command again."
        )
    return pickle.loads(content)


def _refusal(ledger: str, index: int) -> str:
    return storage.join(ledger, f"{index:06d}{_REFUSAL}")


def _refusals(ledger: str) -> list[str]:
    names = storage.list_files(ledger)
    return [storage.join(ledger, name) for name in names if name.endswith(_REFUSAL)]


def _raise_refusal(ledger: str) -> None:
    """Raises the user's error of the first unit that met one."""
    for location in _refusals(ledger):
        said = json.loads(storage.read_text(location))
        raise UserError(said.pop("where"), said.pop("what"), **said) from None


def _to_dict(error: UserError) -> dict[str, str | None]:
    facts = {name: getattr(error, name) for name in ("where", "what", "got", "expected", "fix")}
    return {name: None if value is None else str(value) for name, value in facts.items()}


def pipeline_options(
    beam_args: str, *, num_workers: int = 0, num_units: int = 1
) -> PipelineOptions:
    """The user's options, and ours where the user says nothing else.

    Raises:
        UserError: Beam cannot read them.
    """
    given = shlex.split(beam_args)
    try:
        options = PipelineOptions(given)
        defaults = _defaults(num_workers, num_units) if _is_local(options) else []
        options = PipelineOptions([_ONE_UNIT_AT_ONCE, *defaults, *given])
        options.get_all_options()
    except SystemExit:  # argparse has said what is wrong
        raise UserError(
            "--beam-args", "cannot be read by Beam (see above)", got=beam_args, fix="Mend them."
        ) from None
    return options


def _defaults(num_workers: int, num_units: int) -> list[str]:
    """Options of the runner here."""
    processes = min(num_workers or engine.default_num_workers(), num_units)
    return [
        f"--direct_num_workers={processes}",
        f"--direct_running_mode={'in_memory' if processes == 1 else 'multi_processing'}",
        # Without triggers it says nothing but this: the runner in Python serves, no other need be
        # downloaded.
        "--allow_unsafe_triggers",
    ]


def _new_pipeline(options: PipelineOptions) -> beam.Pipeline:
    """A pipeline with these options, which its runner checks: `--project` for Dataflow, say."""
    try:
        return beam.Pipeline(options=options)
    except (ValueError, ImportError) as error:
        said = " ".join(str(error).split())
        raise UserError(
            "--beam-args", f"do not suit {_runner(options)}: {said}", fix="Mend them."
        ) from None


def _runner(options: PipelineOptions) -> str:
    return options.view_as(StandardOptions).runner or _DEFAULT_RUNNER


def _is_local(options: PipelineOptions) -> bool:
    name = _runner(options).rsplit(".", 1)[-1].lower().removesuffix("runner")
    is_loopback = options.view_as(PortableOptions).environment_type == "LOOPBACK"
    return name in _LOCAL_RUNNERS or is_loopback
