"""The train component: shards to a masked language model."""

from kfp import dsl

from clozeflow.training.config import TrainConfig
from components import images
from components.artifacts import MaskedLM, Shards, Tokenizer
from components.documentation import documented_by


@dsl.container_component
@documented_by(TrainConfig)
def train(
    shards: dsl.Input[Shards],
    tokenizer: dsl.Input[Tokenizer],
    model: dsl.Output[MaskedLM],
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
) -> dsl.ContainerSpec:
    """Trains a masked language model from scratch; resumes by itself.

    Args:
        shards: The examples.
        tokenizer: The tokenizer that the shards were made with; it becomes part of the model.

    Returns:
        model: The model's folder.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["train", "{{$}}"])
