"""Compiling: components and pipelines to YAML, with the images and the place that are asked for."""

import argparse
import dataclasses
import enum
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from kfp import compiler
from kfp.dsl.base_component import BaseComponent

from clozeflow.errors import UserError
from clozeflow.slices import find_slice
from components import images as default_images
from pipelines.catalog import COMPONENTS, PIPELINES
from pipelines.graph import HERE, Variant


class Target(enum.StrEnum):
    """What runs the compiled pipeline."""

    ANY = "any"
    """Any KFP backend, and `kfp.local`: every task in its image."""
    VERTEX = "vertex"
    """Vertex AI Pipelines: training is a custom job on a TPU slice."""


Images = Mapping[str, str]
"""By role (`cpu`, `tpu`), the image to use."""


def write_components(folder: Path) -> list[Path]:
    """Writes each component's YAML beside its source."""
    return [_write(folder / name / "component.yaml", text) for name, text in _components()]


def stale_components(folder: Path) -> list[Path]:
    """The component files that are not what their source compiles to."""
    paths = {folder / name / "component.yaml": text for name, text in _components()}
    return [p for p, text in paths.items() if not p.is_file() or p.read_text() != text]


def write_pipelines(folder: Path, variant: Variant, images: Images) -> list[Path]:
    """Writes every pipeline's YAML for the place that the variant describes."""
    return [
        _write(folder / f"{name}.yaml", compiled(make(variant), images))
        for name, make in PIPELINES.items()
    ]


def compiled(component: BaseComponent, images: Images = default_images.DEFAULTS) -> str:
    """The YAML of a component or pipeline, with its images put in."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "compiled.yaml")
        compiler.Compiler().compile(component, str(path))
        text = path.read_text(encoding="utf-8")
    changed = {default_images.DEFAULTS[role]: image for role, image in images.items()}
    if all(before == after for before, after in changed.items()):
        return text
    heading = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    documents = [_replaced(document, changed) for document in yaml.safe_load_all(text)]
    return heading + yaml.safe_dump_all(documents, sort_keys=True)


def _components() -> Iterator[tuple[str, str]]:
    for name, component in COMPONENTS.items():
        yield name, compiled(component)


def _replaced(value: Any, changed: Mapping[str, str]) -> Any:
    """The value with every string that is an image's default name replaced."""
    if isinstance(value, dict):
        return {key: _replaced(entry, changed) for key, entry in value.items()}
    if isinstance(value, list):
        return [_replaced(entry, changed) for entry in value]
    return changed.get(value, value) if isinstance(value, str) else value


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """The flags that choose images."""
    group = parser.add_argument_group("images")
    group.add_argument("--images", type=Path, metavar="FILE", help="JSON: role to image")
    group.add_argument(
        "--image",
        action="extend",
        nargs="+",
        default=[],
        metavar="ROLE=IMAGE",
        help=f"roles: {', '.join(default_images.DEFAULTS)}",
    )


def chosen_images(options: argparse.Namespace) -> dict[str, str]:
    """The images of a command line, the defaults where it names none."""
    given = _images_of_file(options.images) if options.images else {}
    for assignment in options.image:
        role, equals, image = assignment.partition("=")
        if not equals:
            raise UserError("--image", "names no role", got=assignment, fix="Write ROLE=IMAGE.")
        given[role] = image
    for role in given:
        if role not in default_images.DEFAULTS:
            raise UserError(
                "--images",
                "there is no such role",
                got=role,
                expected=", ".join(default_images.DEFAULTS),
                fix="Name the images by these roles.",
            )
    return {**default_images.DEFAULTS, **given}


def _images_of_file(path: Path) -> dict[str, str]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(path, f"cannot be read: {error}", fix="Check --images.") from None
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise UserError(
            path, "is no mapping from roles to images", fix='Write {"cpu": "…", "tpu": "…"}.'
        )
    return value


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """The flags of a vertex target's training job, from the fields of `JobOptions`."""
    from pipelines.tpu import JobOptions

    group = parser.add_argument_group("training job (vertex)")
    group.add_argument("--allow-unsupported", action="store_true", help="slices without TensorFlow")
    for field in dataclasses.fields(JobOptions):
        _add_job_option(group, field)


def _add_job_option(group: argparse._ArgumentGroup, field: dataclasses.Field) -> None:
    flag = "--" + field.name.replace("_", "-")
    if field.type is bool:
        group.add_argument(flag, action="store_true")
    elif field.name == "labels":
        group.add_argument(flag, action="extend", nargs="+", default=[], metavar="KEY=VALUE")
    elif isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        group.add_argument(flag, type=field.type, choices=tuple(field.type), default=field.default)
    else:
        assert isinstance(field.type, type)
        group.add_argument(flag, type=field.type, default=field.default)


def chosen_variant(options: argparse.Namespace) -> Variant:
    """The place that a command line asks for.

    Raises:
        UserError: The slice does not exist, cannot be used, or is missing.
    """
    if options.target is Target.ANY:
        if options.tpu:
            raise UserError("--tpu", "needs a target", fix="Add --target vertex.")
        return HERE
    if not options.tpu:
        raise UserError(
            "--target vertex", "needs a slice", expected="--tpu", fix="Add for example --tpu v5e-4."
        )
    from pipelines.tpu import JobOptions, Unsupported, check_slice, vertex_variant

    tpu = find_slice(options.tpu)
    check_slice(tpu, Unsupported.ALLOW if options.allow_unsupported else Unsupported.REFUSE)
    names = [field.name for field in dataclasses.fields(JobOptions)]
    settings = {name: getattr(options, name) for name in names}
    settings["labels"] = dict(label.split("=", 1) for label in options.labels)
    return vertex_variant(tpu, JobOptions(**settings))
