"""The preflight component: what the TPU's own compiler says of the training step."""

from kfp import dsl

from clozeflow.preflight.config import PreflightConfig
from components import images
from components.artifacts import PreflightReport, Shards, Tokenizer
from components.documentation import documented_by


@dsl.container_component
@documented_by(PreflightConfig)
def preflight(
    report: dsl.Output[PreflightReport],
    shards: dsl.Input[Shards] = None,
    tokenizer: dsl.Input[Tokenizer] = None,
    preset: str = "tiny",
    model_config: str = "",
    init_from: str = "",
    num_train_steps: int = 0,
    num_train_epochs: float = 0.0,
    num_train_tokens: int = 0,
    global_batch_size: int = 64,
    gradient_accumulation_steps: int = 1,
    optimizer: str = "adamw",
    schedule: str = "linear",
    peak_learning_rate: float = 0.002,
    warmup_steps: int = -1,
    decay_share: float = 0.2,
    weight_decay: float = 0.01,
    max_gradient_norm: float = 1.0,
    masking_unit: str = "token",
    masking_rate: float = 0.15,
    final_masking_rate: float = 0.0,
    mask_share: float = 0.8,
    random_share: float = 0.1,
    mean_span_length: float = 3.0,
    max_ngram_length: int = 3,
    dropout_rate: float = 0.1,
    seed: int = 0,
    precision: str = "auto",
    recompute: str = "none",
    compiler: str = "none",
    distribution: str = "auto",
    tpu_name: str = "",
    steps_per_call: int = 20,
    log_every_steps: int = 20,
    checkpoint_every_steps: int = 100,
    keep_checkpoints: int = 2,
    validate_every_steps: int = 0,
    keep: str = "last",
    early_stopping_patience: int = 0,
    profile_steps: str = "",
    push_to_hub: str = "",
    fork: bool = False,
    tpu: str = "",
    preflight: str = "on",
    per_replica_batch_size: int = 0,
    seq_len: int = 128,
    vocab_size: int = 8192,
    usd_per_chip_hour: float = 0.0,
    require: bool = False,
    search: bool = False,
    time_limit_seconds: int = 1800,
) -> dsl.ContainerSpec:
    """Compiles the training step for a TPU slice, and fails where it does not fit.

    Args:
        shards: The examples; left out before there are any.
        tokenizer: The tokenizer that the shards were made with.

    Returns:
        report: Memory, operations, cycles, time and cost.
    """
    return dsl.ContainerSpec(
        image=images.PREFLIGHT, command=images.COMMAND, args=["preflight", "{{$}}"]
    )
