"""A page for each component, made from the code: what goes in, what comes out, every setting."""

import enum
import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kfp.dsl.base_component import BaseComponent

from clozeflow.registry import STAGES
from components.documentation import choice_descriptions
from pipelines.arguments import container_of, parameter_definitions, spec_of
from pipelines.resources import resources_of

_HEADING = "<!-- Made by `python compile.py` from components/{name}/component.py: do not edit. -->"
_TYPES = {
    "NUMBER_INTEGER": "integer",
    "NUMBER_DOUBLE": "number",
    "BOOLEAN": "true or false",
    "STRING": "text",
    "LIST": "list of texts",
    "STRUCT": "mapping",
    "TASK_FINAL_STATUS": "given by KFP",
}
_SHOWN_CORPORA_GIB = (1, 100)


def page(component: BaseComponent) -> str:
    """The page of a component, as Markdown."""
    spec = spec_of(component)
    name = component.name
    (definition,) = spec["components"].values()
    parts = [
        _HEADING.format(name=name),
        f"# {name}",
        component.description or "",
        _artifacts("Inputs", definition.get("inputDefinitions", {})),
        _artifacts("Outputs", definition.get("outputDefinitions", {})),
        _settings(name, spec),
        _running(name, container_of(spec, definition)),
        _use(name),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _artifacts(title: str, side: Mapping[str, Any]) -> str:
    rows = [
        (name, f"`{entry['artifactType']['schemaTitle']}`", _about(entry))
        for name, entry in side.get("artifacts", {}).items()
    ]
    if title == "Outputs":
        rows += [
            (name, _TYPES[entry["parameterType"]], _about(entry))
            for name, entry in side.get("parameters", {}).items()
        ]
    return f"## {title}\n\n" + _table(("name", "type", "what"), sorted(rows)) if rows else ""


def _about(entry: Mapping[str, Any]) -> str:
    optional = " May be left out." if entry.get("isOptional") else ""
    return entry.get("description", "") + optional


def _settings(name: str, spec: Mapping[str, Any]) -> str:
    choices = _choices(name)
    rows = [
        (
            f"`{setting}`",
            _kind(entry, choices.get(setting)),
            _default(entry),
            " ".join([entry.get("description", ""), *_meanings(choices.get(setting))]),
        )
        for setting, entry in sorted(parameter_definitions(spec).items())
    ]
    if not rows:
        return ""
    return "## Settings\n\n" + _table(("name", "type", "default", "what"), rows)


def _choices(name: str) -> dict[str, type[enum.Enum]]:
    """The settings of a component's stage that are chosen from a few values."""
    types = typing.get_type_hints(STAGES[name].config) if name in STAGES else {}
    return {
        setting: kind
        for setting, kind in types.items()
        if isinstance(kind, type) and issubclass(kind, enum.Enum)
    }


def _kind(entry: Mapping[str, Any], choices: type[enum.Enum] | None) -> str:
    if choices is None:
        return _TYPES[entry["parameterType"]]
    return "one of " + ", ".join(f"`{choice.value}`" for choice in choices)


def _meanings(choices: type[enum.Enum] | None) -> Iterator[str]:
    for value, text in choice_descriptions(choices).items() if choices else ():
        yield f"`{value}`: {text}"


def _default(entry: Mapping[str, Any]) -> str:
    if "defaultValue" not in entry:
        return ""
    value = entry["defaultValue"]
    whole = int(value) if entry["parameterType"] == "NUMBER_INTEGER" else value
    return f"`{json.dumps(whole, ensure_ascii=False)}`"


def _running(name: str, container: Mapping[str, Any]) -> str:
    command = " ".join([*container.get("command", []), *container.get("args", [])])
    lines = [f"Image `{container['image']}`, command `{command}`."]
    if name == "train":
        lines.append("On Vertex AI it is a custom job on the TPU slice that `--tpu` names.")
    elif name in STAGES:
        lines += list(_machines(name))
    return "## Running\n\n" + "\n".join(lines)


def _machines(name: str) -> Iterator[str]:
    yield "What `compile.py --target vertex --corpus-gib N` asks for:\n"
    rows = []
    for size in _SHOWN_CORPORA_GIB:
        needs = resources_of(name, size)
        rows.append((f"{size} GiB", str(needs.num_cores), f"{needs.memory_gib} GiB"))
    yield _table(("raw text", "cores", "memory"), rows)


def _use(name: str) -> str:
    return (
        "## In a pipeline of yours\n\n"
        "```python\n"
        "from kfp import components\n\n"
        f'{name} = components.load_component_from_file("components/{name}/component.yaml")\n'
        "```"
    )


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text
