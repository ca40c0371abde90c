"""Commands to copy."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clozeflow.config import flag
from clozeflow.preflight.config import PreflightConfig

if TYPE_CHECKING:
    from clozeflow.preflight.plan import Plan

_NOT_OF_THE_RUN = ("search",)
_CONVERTED = ("per_replica_batch_size", "seq_len", "vocab_size", "warmup_steps")
_DURATIONS = ("num_train_steps", "num_train_epochs", "num_train_tokens")


def command_of(plan: Plan) -> str:
    """What asks for a preflight of the plan."""
    settings = {
        "tpu": plan.config.tpu,
        **dict(_settings(plan)),
        "seq_len": plan.seq_len,
        "vocab_size": len(plan.tokenizer),
    }
    words = [word for name, value in settings.items() for word in _words(name, value)]
    return shlex.join(["clozeflow", "preflight", *words, "--output", f"preflight-{_name(plan)}"])


def settings_changed(before: Plan, after: Plan) -> str:
    """The flags of `clozeflow train` that make one plan of the other; of `shard`, for its rows."""
    old, new = before.config.to_dict(), after.config.to_dict()
    changed = {name: new[name] for name in new if new[name] != old[name]}
    if before.seq_len != after.seq_len:
        changed["seq_len"] = after.seq_len
    return shlex.join(word for name, value in changed.items() for word in _words(name, value))


def _settings(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Those that are not the defaults; what was converted in the plan is left out."""
    defaults, given = PreflightConfig().to_dict(), plan.config.to_dict()
    for field in dataclasses.fields(PreflightConfig):
        name = field.name
        if name in (*_NOT_OF_THE_RUN, *_CONVERTED, "tpu"):
            continue
        if given[name] != defaults[name]:
            yield name, given[name]
    if given["warmup_steps"] != given["num_train_steps"] // 10:
        yield "warmup_steps", given["warmup_steps"]


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag(name) if value else flag(f"no_{name}")]
    return [flag(name), str(value)]


def _name(plan: Plan) -> str:
    config = plan.config
    parts = [config.preset.value, str(plan.seq_len), str(plan.num_rows)]
    if config.gradient_accumulation_steps > 1:
        parts.append(f"{config.gradient_accumulation_steps}parts")
    if config.recompute != "none":
        parts.append(config.recompute.value)
    return "-".join([*parts, plan.tpu.name])
