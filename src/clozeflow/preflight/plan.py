"""What training would do with the same settings: the step, as the compiler gets it.

The step is made by `training.build`, as for training; nothing of it is written here again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Self

import tensorflow as tf

import clozeflow.training  # noqa: F401  (before TensorFlow's Keras is loaded)
from clozeflow import storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.preflight import module
from clozeflow.preflight.config import PreflightConfig
from clozeflow.preflight.topologies import Core, Topology, core_of, topology_of
from clozeflow.slices import Slice
from clozeflow.training import build, checks, devices, durations, hlo
from clozeflow.training.config import MaskingUnit
from clozeflow.training.model import count_parameters
from clozeflow.training.step import TrainStep

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedTokenizer:
    """Stands for a tokenizer that is yet to be made: what the step's shapes depend on."""

    num_ids: int
    bos_token_id: int = 0
    pad_token_id: int = 1
    eos_token_id: int = 2
    mask_token_id: int = 4
    all_special_ids: tuple[int, ...] = (0, 1, 2, 3, 4)
    """As `clozeflow tokenizer` numbers them."""
    name_or_path: str = "planned"

    def __len__(self) -> int:
        return self.num_ids


@dataclasses.dataclass(frozen=True, kw_only=True)
class Module:
    """An exported step."""

    content: bytes
    """A serialised HLO module."""
    fingerprint: str
    argument_bytes: int
    """Weights, the optimizer's state, a batch."""
    num_parameters: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A training run that is yet to be."""

    config: PreflightConfig
    """With durations in steps and the global batch of the whole slice."""
    seq_len: int
    tokenizer: Any
    num_examples: int
    """In the train split; 0 where that is not known."""

    @property
    def tpu(self) -> Slice:
        """The slice."""
        return self.config.slice()

    @property
    def topology(self) -> Topology:
        """The slice, for the compiler."""
        return topology_of(self.tpu)

    @property
    def core(self) -> Core:
        """What each replica runs on."""
        return core_of(self.tpu)

    @property
    def num_rows(self) -> int:
        """Of a replica, in a step."""
        return self.config.global_batch_size // self.tpu.num_replicas

    @property
    def num_masked_positions(self) -> int:
        """Of a row."""
        config = self.config.training()
        if config.masking_unit is MaskingUnit.WHOLE_WORD:
            # There is as much room for any unit of several tokens, and this needs no pieces.
            config = dataclasses.replace(config, masking_unit=MaskingUnit.SPAN)
        rule = build.make_rule(config, self.tokenizer, seq_len=self.seq_len)
        return rule.num_masked_positions

    def changed(self, **settings: Any) -> Self:
        """The plan with other settings; `seq_len` among them changes the rows' length."""
        seq_len = settings.pop("seq_len", self.seq_len)
        return dataclasses.replace(
            self, config=dataclasses.replace(self.config, **settings), seq_len=seq_len
        )

    def with_rows(self, num_rows: int) -> Self:
        """The plan with another number of rows on a replica."""
        return self.changed(global_batch_size=num_rows * self.tpu.num_replicas)


@contextlib.contextmanager
def make_plan(config: PreflightConfig, inputs: Mapping[str, Artifact]) -> Iterator[Plan]:
    """The run that the settings describe.

    Args:
        config: The settings.
        inputs: `shards` and `tokenizer`, where they are there already.

    Raises:
        UserError: The batch cannot be divided, or an input does not go with the settings.
    """
    replicas = config.slice().num_replicas
    if config.per_replica_batch_size:
        size = config.per_replica_batch_size * replicas
        config = dataclasses.replace(config, global_batch_size=size)
    checks.check_division(config, replicas)
    shards = inputs.get("shards")
    num_examples = checks.num_train_examples(shards) if shards else 0
    if config.num_train_epochs and not num_examples:
        raise UserError(
            "--num-train-epochs",
            "is no known number of steps without shards",
            fix="Give --shards, or --num-train-steps.",
        )
    seq_len = shards.manifest.properties["seq_len"] if shards else config.seq_len
    config = durations.in_steps(config, num_examples=num_examples, seq_len=seq_len)
    with _tokenizer(config, inputs) as tokenizer:
        if shards:
            checks.check_inputs(config, shards, tokenizer)
        yield Plan(config=config, seq_len=seq_len, tokenizer=tokenizer, num_examples=num_examples)


@contextlib.contextmanager
def _tokenizer(config: PreflightConfig, inputs: Mapping[str, Artifact]) -> Iterator[Any]:
    if "tokenizer" in inputs:
        with storage.local_folder(inputs["tokenizer"].uri) as folder:
            yield build.load_tokenizer(folder)
        return
    shards = inputs.get("shards")
    yield PlannedTokenizer(
        num_ids=shards.manifest.properties["vocab_size"] if shards else config.vocab_size
    )


class Exporter:
    """Exports steps; the model of the last one is kept, as it costs more than the rest."""

    def __init__(self) -> None:
        self._made: tuple[Any, TrainStep] | None = None

    def export(self, plan: Plan) -> Module:
        """One replica's step of the plan, with the sums over all replicas in it."""
        config = devices.on_tpu(plan.config.training())
        step = self._step(plan, config)
        specs = hlo.batch_specs(
            num_rows=plan.num_rows,
            seq_len=plan.seq_len,
            num_masked_positions=plan.num_masked_positions,
        )
        content = hlo.step_hlo(step, specs, num_replicas=plan.tpu.num_replicas)
        return Module(
            content=content,
            fingerprint=module.fingerprint(content),
            argument_bytes=module.argument_bytes(content),
            num_parameters=count_parameters(step.model),
        )

    def _step(self, plan: Plan, config: Any) -> TrainStep:
        # The batch's size is not the model's.
        key = (dataclasses.replace(config, global_batch_size=1), plan.seq_len, len(plan.tokenizer))
        if self._made and self._made[0] == key:
            return self._made[1]
        self._made = None  # two large models at once may be too many
        gc.collect()
        strategy = tf.distribute.get_strategy()
        step = build.step_for_rows(config, plan.tokenizer, strategy, seq_len=plan.seq_len)
        self._made = key, step
        return step
