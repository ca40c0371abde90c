"""The training step as the TPU compiler sees it, on a machine without a TPU, against limits.

    python benchmarks/tpu_step.py [--preset base] [--rows 64] [--keep-text FILE]

Needs the preflight environment (`make preflight-env`); takes about four minutes of one core. HBM
and FLOP are the compiler's own and can be trusted; its cycles rank variants and are not times.
Exits with 1 where a limit is passed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from clozeflow.preflight.compilation import Compilation, TpuCompiler
from clozeflow.preflight.config import PreflightConfig
from clozeflow.training.config import Preset

LIMITS = {"tflop": 4.8, "cycles_millions": 75.0, "peak_gib": 4.5, "loops": 0}
"""For roberta-base, 128 tokens, 64 rows on a core."""


def main() -> None:
    """Exports, compiles, and prints the figures beside their limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", type=Preset, default=Preset.BASE)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--vocab-size", type=int, default=50_265)
    parser.add_argument("--tpu", default="v5e-4")
    parser.add_argument("--keep-text", type=Path, help="for the compiled program")
    arguments = parser.parse_args()
    figures = measure(arguments)
    for name, limit in LIMITS.items():
        print(f"{name:16} {figures[name]:8.2f}   limit {limit}")
    sys.exit(0 if all(figures[name] <= limit for name, limit in LIMITS.items()) else 1)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """The compiler's figures of one replica's step."""
    config = PreflightConfig(
        preset=arguments.preset,
        per_replica_batch_size=arguments.rows,
        seq_len=arguments.seq_len,
        vocab_size=arguments.vocab_size,
        tpu=arguments.tpu,
    )
    compiler = TpuCompiler.find(time_limit_seconds=config.time_limit_seconds)
    if isinstance(compiler, Compilation):
        sys.exit(compiler.message)
    from clozeflow.preflight.plan import make_plan
    from clozeflow.preflight.trials import Trials

    with make_plan(config, {}) as plan:
        trial = Trials(compiler=compiler).compile(plan)
    if not trial.summary:
        sys.exit(trial.compilation.message)
    if arguments.keep_text:
        arguments.keep_text.write_text(trial.compilation.text, encoding="utf-8")
    return {
        "tflop": trial.compilation.figures["flops"] / 1e12,
        "peak_gib": trial.compilation.figures["peak_bytes"] / 2**30,
        "cycles_millions": trial.cycles / 1e6,
        "loops": len(trial.summary.loops),
    }


if __name__ == "__main__":
    main()
