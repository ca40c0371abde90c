"""The Hub's token: from the environment, or from Secret Manager; kept in memory alone."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from clozeflow.errors import UserError

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

TOKEN_VARIABLE = "HF_TOKEN"
SECRET_MANAGER = "https://secretmanager.googleapis.com"
_CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_SECONDS = 60


def hub_token(secret: str) -> str:
    """The token.

    Args:
        secret: Its resource name in Secret Manager, or "" for the environment.

    Raises:
        UserError: There is none.
    """
    token = read_secret(secret) if secret else os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise UserError(
            f"--token-secret {secret}" if secret else TOKEN_VARIABLE,
            "holds no token for the Hub",
            fix="Make one with the right to write at huggingface.co/settings/tokens, and put it "
            "there (never into a setting: settings are written down).",
        )
    return token


def read_secret(name: str) -> str:
    """The content of a secret's version, by Secret Manager's REST interface.

    Raises:
        UserError: It may not be read, or is not there.
    """
    response = google_session().get(f"{SECRET_MANAGER}/v1/{name}:access", timeout=_TIMEOUT_SECONDS)
    if response.status_code != 200:
        raise UserError(
            f"--token-secret {name}",
            "cannot be read",
            got=f"HTTP {response.status_code}",
            fix="Give the name of a version that exists, and its reader the role "
            "Secret Manager Secret Accessor.",
        )
    return base64.b64decode(response.json()["payload"]["data"]).decode("utf-8").strip()


def google_session() -> AuthorizedSession:
    """An HTTP session with the credentials that Google's libraries find here.

    Raises:
        UserError: There are none.
    """
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import AuthorizedSession

    try:
        credentials, _ = google.auth.default(scopes=[_CLOUD_SCOPE])
    except DefaultCredentialsError:
        raise UserError(
            "Google Cloud",
            "there are no credentials here",
            fix="Run: gcloud auth application-default login",
        ) from None
    return AuthorizedSession(credentials)
