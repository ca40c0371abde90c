"""What is refused before anything is opened, asked or sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.publishing.config import PublishConfig
from clozeflow.publishing.destinations import Destination, RegistryModel, parse_destinations


def check_inputs(config: PublishConfig, inputs: Mapping[str, Artifact], output: str) -> None:
    """Refuses a model that is not blessed, and destinations that cannot be.

    Raises:
        UserError: It says which.
    """
    check_blessed(inputs["evaluation"], force=config.force)
    check_destinations(parse_destinations(config.publish_to), output)


def check_blessed(evaluation: Artifact, *, force: bool) -> None:
    """Refuses a model that its evaluation did not bless, unless it is to be forced.

    Raises:
        UserError: With the evaluation's reasons.
    """
    if evaluation.manifest.parameters.get("blessed") is True or force:
        return
    raise UserError(
        f"--evaluation {evaluation.uri}",
        "does not bless the model",
        got=evaluation.manifest.properties.get("verdict", "no verdict"),
        fix="Train a better one, evaluate it with other --require, or add --force.",
    )


def check_destinations(destinations: Sequence[Destination], output: str) -> None:
    """What can be told without asking anybody."""
    if not destinations:
        raise UserError(
            "--publish-to",
            "names no destination",
            fix="Give hf:OWNER/NAME, vertex:PROJECT/LOCATION/MODEL, a folder or gs://….",
        )
    wants_bucket = [d for d in destinations if isinstance(d, RegistryModel)]
    if wants_bucket and not output.startswith("gs://"):
        raise UserError(
            f"--output {output}",
            f"is no place that {wants_bucket[0]} can serve a model from",
            expected="gs://…",
            fix="Give an --output in a bucket: the SavedModel is put there.",
        )
