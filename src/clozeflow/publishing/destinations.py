"""Where a model is published to, read from the setting `publish_to`."""

from __future__ import annotations

import dataclasses
import re
from typing import Self

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.hub_client import HUB_SCHEME

VERTEX_SCHEME = "vertex:"
_FLAG = "--publish-to"
_HUB_SHAPE = re.compile(r"hf:(?P<repository>\w[\w.-]*/\w[\w.-]*)/?")
_VERTEX_SHAPE = re.compile(
    r"vertex:(?P<project>[a-z0-9:.-]+)/(?P<location>[a-z0-9-]+)/(?P<model>[a-z0-9_-]{1,63})/?"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HubRepository:
    """A model repository of the Hugging Face Hub."""

    repository: str
    """OWNER/NAME."""

    def __str__(self) -> str:
        return HUB_SCHEME + self.repository


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegistryModel:
    """A model of the Vertex AI Model Registry: each publication is a version of it."""

    project: str
    location: str
    model: str
    """Its id, which is also its name for people."""

    @property
    def parent(self) -> str:
        """The resource that its models belong to."""
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def name(self) -> str:
        """Its resource name."""
        return f"{self.parent}/models/{self.model}"

    def __str__(self) -> str:
        return f"{VERTEX_SCHEME}{self.project}/{self.location}/{self.model}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder of this machine or of an object store."""

    location: str

    def __str__(self) -> str:
        return self.location


Destination = HubRepository | RegistryModel | Folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """What was published at a destination."""

    where: str
    url: str
    """For people; a location for a folder."""
    revision: str
    """The commit, the version, or the fingerprint: what names just this publication there."""

    @classmethod
    def of(cls, destination: Destination, *, url: str, revision: str) -> Self:
        """The place of a destination."""
        return cls(where=str(destination), url=url, revision=revision)


def parse_destinations(text: str) -> list[Destination]:
    """Reads `publish_to`; none where it is empty.

    Raises:
        UserError: One is malformed, or given twice.
    """
    found = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if len(set(found)) < len(found):
        raise UserError(_FLAG, "names a destination twice", got=repr(text), fix="Name it once.")
    return found


def _parse(text: str) -> Destination:
    if text.startswith(HUB_SCHEME):
        return HubRepository(**_matched(_HUB_SHAPE, text, "hf:OWNER/NAME"))
    if text.startswith(VERTEX_SCHEME):
        return RegistryModel(**_matched(_VERTEX_SHAPE, text, "vertex:PROJECT/LOCATION/MODEL"))
    if storage.is_remote(text) and not text.startswith("gs://"):
        raise UserError(
            _FLAG,
            "is no place to publish to",
            got=repr(text),
            expected="hf:OWNER/NAME, vertex:PROJECT/LOCATION/MODEL, a folder or gs://…",
            fix="Give one of these.",
        )
    return Folder(location=text.rstrip("/"))


def _matched(shape: re.Pattern[str], text: str, expected: str) -> dict[str, str]:
    match = shape.fullmatch(text)
    if not match:
        raise UserError(
            _FLAG, "is malformed", got=repr(text), expected=expected, fix="Write it like that."
        )
    return match.groupdict()
