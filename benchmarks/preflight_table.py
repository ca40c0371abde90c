"""The table of docs/preflight.md: what fits a core, and what it takes, by preset and slice.

    python benchmarks/preflight_table.py [--presets tiny base] [--slices v5e-4] [--steps]

Needs the preflight environment (`make preflight-env`). For each preset, slice and length of rows
the largest batch of a core is found by the TPU's compiler, and with `--steps` a step of 8,192
tokens a core (or of that batch, if it is less) is compiled to its end, for its time: minutes each
for base and large. What was found is kept in RESULTS: a run that was stopped goes on where it was,
and prints what there is.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import logging
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clozeflow.preflight.compilation import Compilation, Status, TpuCompiler
from clozeflow.preflight.config import PreflightConfig
from clozeflow.training.config import Preset

if TYPE_CHECKING:
    from clozeflow.preflight.plan import Plan
    from clozeflow.preflight.trials import Trial, Trials

VOCAB_SIZE = 50_265
FIRST_ROWS = {Preset.TINY: 1024, Preset.MINI: 512, Preset.SMALL: 512}
"""Of 128 tokens, where the search begins; of other presets a hundred or so."""
HEADER = (
    "preset",
    "slice",
    "tokens in a row",
    "rows a core, at most",
    "GiB",
    "GFLOP a row",
    "a step of 8,192 tokens (ms)",
)
_STEP_TOKENS = 8192


def main() -> None:
    """Finds what is not known yet, and prints all that is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", type=Preset, nargs="+", default=list(Preset))
    parser.add_argument("--slices", nargs="+", default=["v2-8", "v3-8", "v5e-4"])
    parser.add_argument("--seq-lens", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--steps", action="store_true", help="compile to the end, for the time")
    parser.add_argument("--results", type=Path, default=Path("build/preflight_table.json"))
    arguments = parser.parse_args()
    known = json.loads(arguments.results.read_text()) if arguments.results.is_file() else {}
    for preset in arguments.presets:
        for seq_len in arguments.seq_lens:
            for tpu in arguments.slices:
                name = f"{preset} {tpu} {seq_len}"
                found = known.setdefault(name, {})
                for wanted, work in (("rows", batch), ("step_ms", step)):
                    if wanted in found or (wanted == "step_ms" and not arguments.steps):
                        continue
                    found |= _alone(work, preset, tpu, seq_len, found.get("rows"))
                    arguments.results.parent.mkdir(parents=True, exist_ok=True)
                    arguments.results.write_text(json.dumps(known, indent=1) + "\n")
    print_table(known)


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a process of its own: TensorFlow keeps the weights of what it exported."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def batch(preset: Preset, tpu: str, seq_len: int, _: None) -> dict[str, Any]:
    """The largest batch of a core, and what it takes."""
    from clozeflow.preflight import module

    with _trials(preset, tpu, seq_len) as (trials, plan):
        rows = FIRST_ROWS.get(preset, 128) * 128 // seq_len
        best = largest(trials, trials.place(plan.with_rows(rows)))
        if best.compilation.status is Status.UNAVAILABLE:
            return {"rows": None, "why": best.compilation.message[:300]}
        if not best.memory.does_fit:
            return {"rows": 0}
        products = module.products(best.module.content)
        return {
            "rows": best.plan.num_rows,
            "gib": best.memory.needed_bytes / 2**30,
            "gflop_per_row": products.flops / best.plan.num_rows / 1e9,
            "num_parameters": best.module.num_parameters,
        }


def step(preset: Preset, tpu: str, seq_len: int, most_rows: int | None) -> dict[str, Any]:
    """The range of a step's time."""
    from clozeflow.preflight import module

    if not most_rows:
        return {"step_ms": None}
    with _trials(preset, tpu, seq_len) as (trials, plan):
        trial = trials.compile(plan.with_rows(min(most_rows, _STEP_TOKENS // seq_len)))
        return step_of(trial, module.products(trial.module.content))


@contextlib.contextmanager
def _trials(preset: Preset, tpu: str, seq_len: int) -> Iterator[tuple[Trials, Plan]]:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    config = PreflightConfig(preset=preset, tpu=tpu, seq_len=seq_len, vocab_size=VOCAB_SIZE)
    compiler = TpuCompiler.find(time_limit_seconds=config.time_limit_seconds)
    if isinstance(compiler, Compilation):
        sys.exit(compiler.message)
    from clozeflow.preflight.plan import make_plan
    from clozeflow.preflight.trials import Trials

    with make_plan(config, {}) as plan:
        yield Trials(compiler=compiler), plan


def largest(trials: Trials, first: Trial) -> Trial:
    """The largest batch that fits, from wherever the search begins."""
    from clozeflow.preflight.search import largest_batch

    best = first
    while first.memory.does_fit:
        best, first = first, trials.place(first.plan.with_rows(2 * first.plan.num_rows))
    if first.compilation.status is Status.UNAVAILABLE:
        return first
    return largest_batch(trials, first, fits=best if best is not first else None) or first


def step_of(trial: Trial, products: Any) -> dict[str, Any]:
    """The range of a step's time."""
    from clozeflow.preflight.estimate import estimate

    if not trial.summary:
        return {"step_ms": None}
    plan = trial.plan
    found = estimate(
        trial.summary,
        tpu=plan.tpu,
        core=plan.core,
        matrix_flops=products.flops,
        tokens_per_step=plan.config.global_batch_size * plan.seq_len,
        num_steps=1,
        usd_per_chip_hour=0.0,
    )
    return {"step_ms": [found.step_seconds.low * 1e3, found.step_seconds.high * 1e3]}


def print_table(known: dict[str, dict[str, Any]]) -> None:
    """As Markdown."""
    print("| " + " | ".join(HEADER) + " |")
    print("|---" * len(HEADER) + "|")
    for name, found in known.items():
        preset, tpu, seq_len = name.split()
        cells = [preset, tpu, seq_len, *figures(found)]
        print("| " + " | ".join(cells) + " |")


def figures(found: dict[str, Any]) -> list[str]:
    """The cells of one line, behind its name."""
    if found["rows"] is None:
        return ["not available", "", "", ""]
    if not found["rows"]:
        return ["fewer than 8", "", "", ""]
    step = found.get("step_ms")
    time = f"{step[0]:,.0f} to {step[1]:,.0f}" if step else ""
    return [f"{found['rows']:,}", f"{found['gib']:.1f}", f"{found['gflop_per_row']:,.1f}", time]


if __name__ == "__main__":
    main()
