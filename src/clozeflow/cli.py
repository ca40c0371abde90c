"""The command line: one command a stage, with flags made from the stage's config.

Nothing heavy is imported here: `clozeflow --help` answers in less than a second.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro

from clozeflow.config import flag
from clozeflow.errors import UserError
from clozeflow.evaluation.commands import Embed, Predict, Serving
from clozeflow.registry import STAGES, Stage
from clozeflow.stages import run_stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verify:
    """Re-reads every byte of an artifact and names the file that is not as its manifest says."""

    folders: tyro.conf.Positional[tuple[str, ...]]
    """Folders of artifacts."""


def main() -> None:
    """Runs the command asked for; a user's error is one message and exit code 2."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        command = tyro.extras.subcommand_cli_from_dict(
            {
                **{stage.command or name: _stage_command(stage) for name, stage in STAGES.items()},
                **_OTHERS,
            },
            prog="clozeflow",
            description="Pretrain a masked language model from raw text.",
            args=gather_repeated(sys.argv[1:]),
            config=(tyro.conf.EnumChoicesFromValues, tyro.conf.OmitArgPrefixes),
        )
        _run(command)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def gather_repeated(arguments: Sequence[str]) -> list[str]:
    """`--require A --require B` as `--require A B`: tyro would silently keep the last alone."""
    list_flags = {flag(name) for name in _list_fields()}
    groups: list[list[str]] = [[]]
    of_flag: dict[str, list[str]] = {}
    current = groups[0]
    for argument in arguments:
        name, is_joined, value = argument.partition("=")
        if not argument.startswith("--"):
            current.append(argument)
        elif name not in list_flags:
            current = [argument]
            groups.append(current)
        else:
            if name not in of_flag:
                of_flag[name] = [name]
                groups.append(of_flag[name])
            current = of_flag[name]
            current += [value] if is_joined else []
    return [argument for group in groups for argument in group]


def _list_fields() -> set[str]:
    """The settings of all commands that take several values."""
    classes = [*(stage.config for stage in STAGES.values()), Predict]
    fields = [field for kind in classes for field in dataclasses.fields(kind)]
    return {field.name for field in fields if isinstance(field.default, tuple)} - {"texts"}


def _stage_command(stage: Stage) -> type:
    """A dataclass with the stage's inputs, its output and its settings, as flags."""
    folders = [
        *((name, f"Folder of the {name} ({kind}).") for name, kind in stage.inputs.items()),
        ("output", f"Folder for the {stage.output_name}: new, or one to complete."),
    ]
    fields: list[Any] = [(name, Annotated[str, tyro.conf.arg(help=text)]) for name, text in folders]
    for name, kind in stage.optional_inputs.items():
        text = f"Folder of the {name} ({kind}); may be left out."
        default = dataclasses.field(default="")
        fields.append((name, Annotated[str, tyro.conf.arg(help=text)], default))
    return dataclasses.make_dataclass(
        f"{stage.name.title()}Command",
        [*fields, ("config", stage.config)],
        namespace={"STAGE": stage, "__doc__": stage.config.__doc__},
        kw_only=True,
        frozen=True,
    )


def _run(command: Any) -> None:
    if isinstance(command, Verify):
        _verify(command)
    elif isinstance(command, (Predict, Embed, Serving)):
        for line in command.lines():
            print(line)
    else:
        _run_stage(command)


def _run_stage(command: Any) -> None:
    stage: Stage = command.STAGE
    manifest = run_stage(
        stage,
        command.config,
        inputs={name: getattr(command, name) for name in (*stage.inputs, *stage.optional_inputs)},
        output=command.output,
    )
    for name, value in {**manifest.properties, **manifest.metrics, **manifest.parameters}.items():
        print(f"{name}: {value}")
    print(f"{stage.output_name}: {command.output} ({manifest.fingerprint[:19]})")


def _verify(command: Verify) -> None:
    from clozeflow.verification import verify

    if not command.folders:
        raise UserError("verify", "no folder is given", fix="Name the folders of artifacts.")
    errors = 0
    for folder in command.folders:
        try:
            manifest = verify(folder)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            errors += 1
        else:
            print(f"{folder}: {manifest.type} is whole ({len(manifest.all_files())} files)")
    if errors:
        sys.exit(2)


_OTHERS: dict[str, Callable[..., Any]] = {
    "predict": Predict,
    "embed": Embed,
    "serving": Serving,
    "verify": Verify,
}


if __name__ == "__main__":
    main()
