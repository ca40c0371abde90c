"""The compiled form of a component or pipeline, with its images put in."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from kfp import compiler
from kfp.dsl.base_component import BaseComponent

from components import images as default_images

Images = Mapping[str, str]
"""By role (`cpu`, `tpu`), the image to use."""


def compiled(component: BaseComponent, images: Images = default_images.DEFAULTS) -> str:
    """The YAML of a component or pipeline: one document, or two with settings for Kubernetes."""
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


def _replaced(value: Any, changed: Mapping[str, str]) -> Any:
    """The value with every string that is an image's default name replaced."""
    if isinstance(value, dict):
        return {key: _replaced(entry, changed) for key, entry in value.items()}
    if isinstance(value, list):
        return [_replaced(entry, changed) for entry in value]
    return changed.get(value, value) if isinstance(value, str) else value
