"""Kills the pipeline's stages many times over, and says what became of each run.

    python -m tests.faults.campaign --seed 20261202 --runs 220 --output build/faults

One calm run is the measure. Each run of the campaign is one stage that is killed at a moment
drawn from (seed, number of the run) and started again; its line in `runs-SEED.jsonl` is written
when it has been compared. The same command goes on with the runs that have no line yet.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
from pathlib import Path
from typing import Any

from tests.faults import kills, pipeline
from tests.faults.kills import Calm
from tests.faults.pipeline import Pipeline

_WEIGHTS = {"corpus": 24, "tokenizer": 16, "shard": 24, "train": 15, "evaluate": 8, "publish": 13}
"""Of 100 runs: stages that have more to lose in a second, or start in less, have more of them."""
_FILE_OPERATIONS = {"corpus": 200, "tokenizer": 80, "shard": 120, "publish": 60, "train": 80}
"""Up to which one a run is killed before; some runs have fewer, and end."""
_SHARE_BY_OPERATION = 0.25


def main() -> None:
    """Runs the campaign and prints its table; exit code 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=20261202)
    parser.add_argument("--runs", type=int, default=220)
    parser.add_argument("--output", type=Path, default=Path("build/faults"))
    asked = parser.parse_args()
    calm = calm_run(asked.output.resolve())
    log = asked.output / f"runs-{asked.seed}.jsonl"
    done = {row["run"] for row in read(log)}
    for number in range(asked.runs):
        if number not in done:
            row = one_run(calm, asked.seed, number, asked.output.resolve() / "run")
            with log.open("a") as file:
                file.write(json.dumps(row) + "\n")
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
    rows = [row for row in read(log) if row["run"] < asked.runs]
    sys.stdout.write(table(rows) + "\n")
    sys.exit(any(row["faults"] for row in rows))


def calm_run(output: Path) -> Calm:
    """The run to compare with, made once."""
    sources = pipeline.write_sources(output / "sources")
    calm = Pipeline(folder=str(output / "calm"), sources=sources)
    times = output / "calm.json"
    if not times.is_file():
        times.write_text(json.dumps(pipeline.run_all(calm)))
    return Calm(pipeline=calm, seconds=json.loads(times.read_text()))


def one_run(calm: Calm, seed: int, number: int, folder: Path) -> dict[str, Any]:
    """A run of the campaign: a function of the seed and its number, but for the machine's mood."""
    draw = random.Random(f"{seed} {number}")
    stage = draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    kills.empty(folder)
    if stage in _FILE_OPERATIONS and draw.random() < _SHARE_BY_OPERATION:
        event = draw.randint(1, _FILE_OPERATIONS[stage])
        report = kills.kill_at_event(calm, stage, folder, event)
    else:
        report = kills.kill_randomly(calm, stage, folder, draw)
    return {"seed": seed, "run": number, **report.to_dict()}


def read(log: Path) -> list[dict[str, Any]]:
    """The lines of a campaign so far."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []


def table(rows: list[dict[str, Any]]) -> str:
    """The runs by stage and kind, as Markdown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        how = row["how"]
        kind = "SIGKILL at a file operation" if "operation" in how else how
        groups[row["stage"], kind].append(row)
        groups["all", ""].append(row)
    lines = ["| stage | killed how | runs | cut short | same bytes | faults |", "|" + "---|" * 6]
    stages = [*pipeline.STAGES, "all"]
    for stage, kind in sorted(groups, key=lambda group: (stages.index(group[0]), group[1])):
        found = groups[stage, kind]
        num_cut = sum(row["codes"][0] != 0 for row in found)
        num_faults = sum(bool(row["faults"]) for row in found)
        same = len(found) - num_faults
        lines.append(f"| {stage} | {kind} | {len(found)} | {num_cut} | {same} | {num_faults} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
