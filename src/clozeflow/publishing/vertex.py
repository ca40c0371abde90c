"""Publishing to the Vertex AI Model Registry, by its REST interface.

What is registered is a SavedModel that fills masks (see `evaluation.serving`), in a folder of the
publication at `gs://`; each publication is a version of the model. The client library is not
used: this layer does not know it.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clozeflow.errors import UserError
from clozeflow.publishing.destinations import Place, RegistryModel

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

FINGERPRINT_LABEL = "clozeflow_fingerprint"
_LABEL_LENGTH = 63
_POLL_SECONDS = 2.0
_MAX_POLLS = 300
_TIMEOUT_SECONDS = 60


class Registry:
    """The registry of one location.

    Args:
        session: Sends requests with credentials.
        location: Of Vertex AI, for example `us-central1`.
        endpoint: Another address, for tests and private networks.
    """

    def __init__(self, session: AuthorizedSession, location: str, endpoint: str = "") -> None:
        self._session = session
        self._url = (endpoint or f"https://{location}-aiplatform.googleapis.com") + "/v1"

    def find_version(self, model: RegistryModel, fingerprint: str) -> Place | None:
        """The version that was registered from a model of this fingerprint, if there is one."""
        label = f'labels.{FINGERPRINT_LABEL}="{label_of(fingerprint)}"'
        path = f"{model.name}:listVersions?{urllib.parse.urlencode({'filter': label})}"
        found = self._call("GET", path, missing={})
        for version in found.get("models", []):
            if version.get("labels", {}).get(FINGERPRINT_LABEL) == label_of(fingerprint):
                return _place(model, version["versionId"])
        return None

    def register(
        self,
        model: RegistryModel,
        *,
        artifact_uri: str,
        serving_image: str,
        fingerprint: str,
        description: str,
    ) -> Place:
        """Makes the model, or a new version of it, and waits until it is there.

        Args:
            model: Where to.
            artifact_uri: The SavedModel's folder, at `gs://`.
            serving_image: The container that serves it.
            fingerprint: The model's, kept as a label: what was registered is found by it.
            description: For people.
        """
        is_there = self._call("GET", model.name, missing={})
        which = {"parentModel": model.name} if is_there else {"modelId": model.model}
        body = {
            **which,
            "model": {
                "displayName": model.model,
                "description": description,
                "artifactUri": artifact_uri,
                "containerSpec": {"imageUri": serving_image},
                "labels": {FINGERPRINT_LABEL: label_of(fingerprint)},
            },
        }
        done = self._wait(self._call("POST", f"{model.parent}/models:upload", body=body))
        return _place(model, done["response"]["modelVersionId"])

    def _wait(self, operation: Mapping[str, Any]) -> Mapping[str, Any]:
        for _ in range(_MAX_POLLS):
            if operation.get("done"):
                break
            time.sleep(_POLL_SECONDS)
            operation = self._call("GET", operation["name"])
        if "response" not in operation:
            message = operation.get("error", {}).get("message", "it did not end in ten minutes")
            raise UserError(
                "Vertex AI", f"did not register the model: {message}", fix="Run it again."
            )
        return operation

    def _call(
        self, method: str, path: str, *, body: object = None, missing: Any = None
    ) -> dict[str, Any]:
        """The answer to a request; `missing`, if it is given, where there is no such resource."""
        response = self._session.request(
            method, f"{self._url}/{path}", json=body, timeout=_TIMEOUT_SECONDS
        )
        if response.status_code == 404 and missing is not None:
            return missing
        if response.status_code != 200:
            raise UserError(
                f"Vertex AI, {path}",
                f"refuses: {_message(response)}",
                got=f"HTTP {response.status_code}",
                fix="Check project, location and rights (role Vertex AI User), and run it again.",
            )
        return response.json()


def label_of(fingerprint: str) -> str:
    """A fingerprint as a label's value."""
    return fingerprint.removeprefix("sha256:")[:_LABEL_LENGTH]


def _place(model: RegistryModel, version: str) -> Place:
    url = (
        f"https://console.cloud.google.com/vertex-ai/models/locations/{model.location}"
        f"/models/{model.model}/versions/{version}?project={model.project}"
    )
    return Place.of(model, url=url, revision=f"{model.name}@{version}")


def _message(response: Any) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return "it gives no reason"
