"""The training step as the TPU compiler sees it, on a machine without a TPU.

    python benchmarks/tpu_step.py --compiler-python JAX_ENV/bin/python [--preset base] [--rows 64]

Exports the very step that trains (`clozeflow.training.hlo`), with the vocabulary of roberta-base,
in bfloat16, and has it compiled for a TPU v5e by `tpu_compile.py` in an environment of its own:

    uv venv JAX_ENV
    uv pip install -p JAX_ENV/bin/python jax==0.10.2 jaxlib==0.10.2 libtpu==0.0.42.1

That takes about four minutes of one core. HBM and FLOP are the compiler's own and can be trusted;
its cycles rank variants and are not times. Exits with 1 where a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")

LIMITS = {"tflop": 4.8, "cycles_millions": 75.0, "peak_gib": 4.5, "whiles": 0}
"""For roberta-base, 128 tokens, 64 rows on a core."""
VOCAB_SIZE = 50_304
"""roberta-base's 50,265, rounded up as `padded_vocab_size` does."""


def main() -> None:
    """Exports, compiles, and prints the figures beside their limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler-python", required=True)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--topology", default="v5e:2x2")
    parser.add_argument("--keep-hlo", help="where to leave the compiled program's text")
    arguments = parser.parse_args()
    figures = measure(arguments)
    are_met = [figures[name] <= limit for name, limit in LIMITS.items()]
    for name, limit in LIMITS.items():
        print(f"{name:16} {figures[name]:8.2f}   limit {limit}")
    sys.exit(0 if all(are_met) else 1)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """The compiler's figures of one replica's step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "step.hlo")
        path.write_bytes(export(arguments.preset, arguments.rows, arguments.seq_len))
        script = Path(__file__).with_name("tpu_compile.py")
        command = [arguments.compiler_python, str(script), arguments.topology, str(path)]
        command += [arguments.keep_hlo] if arguments.keep_hlo else []
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(output.splitlines()[-1]))


def export(preset: str, num_rows: int, seq_len: int) -> bytes:
    """The step's HLO, as training makes it for a TPU."""
    import tensorflow as tf

    import clozeflow.training  # noqa: F401  (before TensorFlow's Keras is loaded)
    from clozeflow.training import hlo, schedules
    from clozeflow.training.config import Compiler, Precision, Preset, TrainConfig
    from clozeflow.training.devices import precision_policy
    from clozeflow.training.masking import MaskingRule
    from clozeflow.training.model import POSITION_OFFSET, build_model, preset_config
    from clozeflow.training.optimizers import OPTIMIZERS
    from clozeflow.training.step import TrainStep

    config = TrainConfig(preset=Preset(preset), warmup_steps=100, num_train_steps=1000)
    model_config = preset_config(config.preset)
    model_config.vocab_size = VOCAB_SIZE
    model_config.max_position_embeddings = seq_len + POSITION_OFFSET
    rule = MaskingRule(
        rate=config.masking_rate,
        seq_len=seq_len,
        vocab_size=VOCAB_SIZE,
        mask_token_id=4,
        special_token_ids=(0, 1, 2, 3, 4),
    )
    strategy = tf.distribute.get_strategy()
    with precision_policy(Precision.BFLOAT16, strategy):
        model = build_model(model_config, seed=0)
        optimizer = OPTIMIZERS[config.optimizer](model.trainable_variables, weight_decay=0.01)
    step = TrainStep(
        strategy=strategy,
        model=model,
        optimizer=optimizer,
        schedule=schedules.make_schedule(config, config.num_train_steps),
        max_gradient_norm=config.max_gradient_norm,
        seed=0,
        compiler=Compiler.XLA,
    )
    specs = hlo.batch_specs(
        num_rows=num_rows, seq_len=seq_len, num_masked_positions=rule.num_masked_positions
    )
    return hlo.step_hlo(step, specs, num_replicas=int(os.environ.get('NREP','1')))


if __name__ == "__main__":
    main()
