"""Compiling: components and pipelines to YAML, with the images and the place that are asked for."""

import argparse
import dataclasses
import enum
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clozeflow.config import flag
from clozeflow.errors import UserError
from clozeflow.slices import find_slice
from components import images as default_images
from components.documentation import own_descriptions
from pipelines.catalog import COMPONENTS, PIPELINES
from pipelines.compiled import Images, compiled
from pipelines.graph import HERE, Variant
from pipelines.pages import page

if TYPE_CHECKING:
    from pipelines.tpu import JobOptions


class Target(enum.StrEnum):
    """What runs the compiled pipeline."""

    ANY = "any"
    """Any KFP backend, and `kfp.local`: every task in its image."""
    VERTEX = "vertex"
    """Vertex AI Pipelines: training is a custom job on a TPU slice."""
    KFP = "kfp"
    """KFP on GKE: training is a pod on a node with TPU chips."""


def write_components(root: Path) -> list[Path]:
    """Writes what is committed: each component's YAML beside its source, and its page."""
    return [_write(path, text) for path, text in _committed(root).items()]


def stale_files(root: Path) -> list[Path]:
    """The committed files that are not what their source compiles to."""
    return [
        path
        for path, text in _committed(root).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def _committed(root: Path) -> dict[Path, str]:
    files = {}
    for name, component in COMPONENTS.items():
        files[root / "components" / name / "component.yaml"] = compiled(component)
        files[root / "docs" / "components" / f"{name}.md"] = page(component)
    return files


def write_pipelines(folder: Path, variant: Variant, images: Images) -> list[Path]:
    """Writes every pipeline for the place that the variant describes, and every component.

    The components here have the images that were asked for; those beside their source do not.
    """
    made = {f"{name}.yaml": make(variant) for name, make in PIPELINES.items()}
    made |= {f"components/{name}.yaml": component for name, component in COMPONENTS.items()}
    return [_write(folder / name, compiled(thing, images)) for name, thing in made.items()]


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
    of_file = _images_of_file(options.images) if options.images else {}
    _check_roles(f"--images {options.images}", of_file)
    given = {}
    for assignment in options.image:
        role, equals, image = assignment.partition("=")
        if not equals or not image:
            raise UserError(
                "--image", "is no role and image", got=assignment, fix="Write ROLE=IMAGE."
            )
        given[role] = image
    _check_roles("--image", given)
    return {**default_images.DEFAULTS, **of_file, **given}


def _check_roles(where: str, given: Iterable[str]) -> None:
    for role in given:
        if role not in default_images.DEFAULTS:
            raise UserError(
                where,
                "there is no such role",
                got=role,
                expected=", ".join(default_images.DEFAULTS),
                fix="Name the images by these roles.",
            )


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

    place = parser.add_argument_group("place (vertex, kfp)")
    place.add_argument("--tpu", help="TPU slice, for example v5e-4")
    place.add_argument("--allow-unsupported", action="store_true", help="slices without TensorFlow")
    place.add_argument(
        "--corpus-gib",
        type=float,
        default=1.0,
        help="GiB of raw text that machines are chosen for (1)",
    )
    place.add_argument(
        "--notify",
        action="extend",
        nargs="+",
        default=[],
        help="addresses told of the end (vertex)",
    )
    group = parser.add_argument_group("training job (vertex)")
    texts = own_descriptions(JobOptions)
    for field in dataclasses.fields(JobOptions):
        _add_job_option(group, field, texts[field.name])


def _add_job_option(
    group: argparse._ArgumentGroup, field: dataclasses.Field, description: str
) -> None:
    name, kind = flag(field.name), field.type
    options: dict[str, Any] = {"help": description[:1].lower() + description[1:].rstrip(".")}
    if kind is bool:
        options |= {"action": "store_true"}
    elif field.name == "labels":
        options |= {"action": "extend", "nargs": "+", "default": [], "metavar": "KEY=VALUE"}
    else:
        options |= {"type": kind, "default": field.default}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            options["choices"] = tuple(kind)
    group.add_argument(name, **options)


def chosen_variant(options: argparse.Namespace) -> Variant:
    """The place that a command line asks for.

    Raises:
        UserError: The slice does not exist, cannot be used, or is missing.
    """
    check_options(options)
    return HERE if options.target is Target.ANY else _tpu_variant(options)


def check_options(options: argparse.Namespace) -> None:
    """Refuses what does not go with the target, or is missing for it.

    Raises:
        UserError: It names the first such option.
    """
    if options.target is not Target.VERTEX:
        for name, default in _vertex_options().items():
            if getattr(options, name) != default:
                raise UserError(
                    flag(name),
                    f"says something of a job of Vertex AI, and the target is {options.target}",
                    fix=f"Leave it out, or compile with --target {Target.VERTEX}.",
                )
    if options.target is Target.ANY:
        if options.tpu:
            raise UserError("--tpu", "needs a target", fix="Add --target vertex.")
    elif not options.tpu:
        raise UserError(
            "--tpu",
            f"is missing: training on {options.target} needs a slice",
            fix="Add for example --tpu v5e-4.",
        )
    else:
        find_slice(options.tpu)


def _vertex_options() -> dict[str, object]:
    """The options that only a job of Vertex AI can follow, each with what it is when not given."""
    from pipelines.tpu import JobOptions

    fields = dataclasses.fields(JobOptions)
    return {
        "notify": [],
        **{field.name: [] if field.name == "labels" else field.default for field in fields},
    }


def _tpu_variant(options: argparse.Namespace) -> Variant:
    tpu = find_slice(options.tpu)
    from pipelines.gke import gke_variant
    from pipelines.tpu import Unsupported, check_slice, vertex_variant

    check_slice(tpu, Unsupported.ALLOW if options.allow_unsupported else Unsupported.REFUSE)
    others = {"corpus_gib": options.corpus_gib, "notified": tuple(options.notify)}
    if options.target is Target.KFP:
        return gke_variant(tpu, **{**others, "notified": ()})
    return vertex_variant(tpu, _job_options(options), **others)


def _job_options(options: argparse.Namespace) -> "JobOptions":
    from pipelines.tpu import JobOptions

    names = [field.name for field in dataclasses.fields(JobOptions)]
    settings = {name: getattr(options, name) for name in names}
    return JobOptions(**{**settings, "labels": chosen_labels(options)})


def chosen_labels(options: argparse.Namespace) -> dict[str, str]:
    """The labels of a command line."""
    labels = [label.partition("=") for label in options.labels]
    if not all(equals for _, equals, _ in labels):
        raise UserError("--labels", "are KEY=VALUE", got=options.labels, fix="Write KEY=VALUE.")
    return {key: value for key, _, value in labels}
