"""What is sent to Vertex AI, checked as far as can be without asking anybody.

The client library of Vertex AI takes seconds to import, and looking for credentials where there are
none takes more: whatever can be wrong with a request is found here, before both.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import yaml

from clozeflow.errors import UserError
from pipelines.arguments import check_arguments, parameter_definitions
from pipelines.lint import lint, untagged


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be run: a compiled pipeline with its arguments."""

    text: str
    """The compiled YAML."""
    arguments: Mapping[str, Any]
    pipeline_root: str
    service_account: str = ""
    network: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.spec["pipelineInfo"]["name"]

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        """The compiled pipeline."""
        return next(iter(yaml.safe_load_all(self.text)))


def completed(request: Request, *, project: str, location: str) -> Request:
    """The request with every argument filled in.

    Args:
        request: What is asked for.
        project: The project, for a pipeline that takes it as an argument.
        location: The region, likewise.

    Raises:
        UserError: An argument, an image or the compiled pipeline is not right.
    """
    known = parameter_definitions(request.spec)
    place = {"project": project, "location": location}
    own = {name: value for name, value in place.items() if name in known}
    values = check_arguments(request.spec, {**own, **request.arguments})
    findings = lint(request.text)
    tags = untagged(findings)
    if tags:
        raise UserError(
            tags[0].where, tags[0].what, expected="NAME@sha256:…", fix="Give --images FILE."
        )
    if findings:
        raise UserError(findings[0].where, findings[0].what, fix=findings[0].cure)
    return dataclasses.replace(request, arguments=values)


def check_cron(cron: str) -> None:
    """Refuses what is no schedule."""
    if len(re.sub(r"^(CRON_)?TZ=\S+\s+", "", cron.strip()).split()) != 5:
        raise UserError(
            "--cron", "is no schedule", got=repr(cron), expected="five fields", fix="As 0 3 * * 1."
        )
