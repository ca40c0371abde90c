"""Settings of the publish stage."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from clozeflow.config import StageConfig
from clozeflow.hub_client import Visibility
from clozeflow.publishing.destinations import parse_destinations

SECRET_SHAPE = re.compile(r"projects/[^/]+/secrets/[^/]+/versions/[^/]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishConfig(StageConfig):
    """From a blessed model to where others find it, with a model card."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"token_secret"})

    publish_to: str = ""
    """Where to: `hf:OWNER/NAME` (a Hub repository), a folder here or at `gs://`, or
    `vertex:PROJECT/LOCATION/MODEL` (the Vertex AI Model Registry); several with commas between."""
    visibility: Visibility = Visibility.PRIVATE
    """Who sees the Hub repository."""
    token_secret: str = ""
    """Where the Hub's token is in Secret Manager (projects/P/secrets/S/versions/V); empty for the
    environment variable HF_TOKEN."""
    license: str = ""
    """The model's licence, as the Hub names it (apache-2.0, cc-by-4.0, …); empty leaves that to be
    filled in."""
    serving_image: str = ""
    """The container that serves the model from the Vertex AI registry, which wants one: Vertex's
    prebuilt one for TensorFlow 2.15, for example."""
    usd_per_hour: float = 0.0
    """What an hour of the machines that trained costs, for the card; 0 where it is not known."""
    force: bool = False
    """Publishes a model that is not blessed too; its card says so."""

    def validate(self) -> None:
        """Checks the shape of each destination and of the secret's name."""
        parse_destinations(self.publish_to)
        is_registered = any(p.strip().startswith("vertex:") for p in self.publish_to.split(","))
        self.check(
            "serving_image", bool(self.serving_image) or not is_registered, "an image's name"
        )
        is_secret = not self.token_secret or SECRET_SHAPE.fullmatch(self.token_secret)
        self.check("token_secret", bool(is_secret), "projects/P/secrets/S/versions/V")
        self.check("usd_per_hour", self.usd_per_hour >= 0, "0 or more")
        self.check("license", "\n" not in self.license, "one line")
