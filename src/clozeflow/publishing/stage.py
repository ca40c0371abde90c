"""The publish stage: a blessed model to where others find it, and a record of that."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clozeflow import storage
from clozeflow.artifacts import MANIFEST, Artifact
from clozeflow.credentials import google_session, hub_token
from clozeflow.hub_client import open_hub
from clozeflow.publishing import folder as folders
from clozeflow.publishing import hub, vertex
from clozeflow.publishing.bundle import File, make_bundle
from clozeflow.publishing.card import make_card
from clozeflow.publishing.config import PublishConfig
from clozeflow.publishing.destinations import (
    Destination,
    Folder,
    HubRepository,
    Place,
    RegistryModel,
    parse_destinations,
)
from clozeflow.stages import Outcome

RECORD = "publication.json"
SERVING_FOLDER = "serving"


def run(config: PublishConfig, inputs: Mapping[str, Artifact], output: str) -> Outcome:
    """Publishes a model to every destination, after all of them were found to be possible.

    The model's own folder is only read.

    Raises:
        UserError: A destination is not possible, or does not hold what was sent.
    """
    model, evaluation = inputs["model"], inputs["evaluation"]
    destinations = parse_destinations(config.publish_to)
    clients = [_client(one, config) for one in destinations]
    with storage.local_folder(model.uri) as local:
        card = make_card(config, model, evaluation, name=_model_name(destinations))
        bundle = Bundle(model=model, files=make_bundle(local, model, evaluation, card=card))
        for one in destinations:
            if isinstance(one, Folder):
                folders.check_folder(one, bundle.files)
        places = [
            _publish(bundle, one, client, config, output)
            for one, client in zip(destinations, clients, strict=True)
        ]
    storage.write_text(storage.join(output, RECORD), _record(bundle, places))
    return Outcome(
        properties=_properties(bundle, evaluation, places),
        auxiliary=(RECORD, f"{SERVING_FOLDER}/"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bundle:
    """A model, and all that is published of it."""

    model: Artifact
    files: Mapping[str, File]

    @property
    def fingerprint(self) -> str:
        """The model's."""
        return self.model.manifest.fingerprint


def _client(destination: Destination, config: PublishConfig) -> Any:
    """What speaks to the destination: it is asked before any file is read; none for a folder."""
    match destination:
        case HubRepository():
            token = hub_token(config.token_secret)
            return open_hub(destination.repository, token, config.visibility)
        case RegistryModel():
            return vertex.Registry(google_session(), destination.location)
        case Folder():
            return None


def _publish(
    bundle: Bundle, destination: Destination, client: Any, config: PublishConfig, output: str
) -> Place:
    match destination:
        case HubRepository():
            return hub.publish_to_hub(
                client,
                destination,
                bundle.files,
                visibility=config.visibility,
                message=f"Model {bundle.fingerprint[:19]}",
            )
        case RegistryModel():
            return register(bundle.model, destination, client, config, output)
        case Folder():
            return folders.publish_to_folder(
                destination, bundle.files, fingerprint=bundle.fingerprint
            )


def register(
    model: Artifact,
    destination: RegistryModel,
    registry: vertex.Registry,
    config: PublishConfig,
    output: str,
) -> Place:
    """Writes the SavedModel and registers it, unless that was done before."""
    fingerprint = model.manifest.fingerprint
    if place := registry.find_version(destination, fingerprint):
        return place
    folder = storage.join(output, SERVING_FOLDER)
    write_serving(model, folder)
    return registry.register(
        destination,
        artifact_uri=folder,
        serving_image=config.serving_image,
        fingerprint=fingerprint,
        description=f"Masked language model of clozeflow, {fingerprint}",
    )


def write_serving(model: Artifact, folder: str) -> None:
    """The SavedModel that fills masks; one that was half written gives way."""
    from clozeflow.evaluation.models import open_model
    from clozeflow.evaluation.serving import save_for_serving

    storage.remove_folder(folder)
    save_for_serving(open_model(model.uri), folder, top_k=10)


def _model_name(destinations: list[Destination]) -> str:
    """What the card calls the model: the first repository's name, else that of the first place."""
    repositories = [d.repository for d in destinations if isinstance(d, HubRepository)]
    others = [Path(str(d)).name for d in destinations]
    return next(iter([*repositories, *others]))


def _record(bundle: Bundle, places: list[Place]) -> str:
    record = {
        "model": bundle.fingerprint,
        "places": [dataclasses.asdict(place) for place in places],
        "files": [
            {"path": path, "num_bytes": file.entry.num_bytes, "sha256": file.entry.sha256}
            for path, file in bundle.files.items()
        ],
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _properties(bundle: Bundle, evaluation: Artifact, places: list[Place]) -> dict[str, Any]:
    return {
        "model": bundle.fingerprint,
        "published_to": ", ".join(place.url for place in places),
        "revisions": ", ".join(place.revision for place in places),
        "num_files": len(bundle.files),
        "num_bytes": sum(file.entry.num_bytes for file in bundle.files.values()),
        "manifest_sha256": bundle.files[MANIFEST].entry.sha256,
        "blessed": bool(evaluation.manifest.parameters.get("blessed")),
    }
