"""The Hugging Face Hub's client, asked for what it can do before anything is sent.

Training pushes with it, and models are published with it.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from clozeflow.errors import UserError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

HUB_SCHEME = "hf:"
"""Before OWNER/NAME, where a repository is one of several places."""
MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS = 1.0
"""Doubled after each attempt."""
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


class Visibility(enum.StrEnum):
    """Who sees a Hub repository."""

    PRIVATE = "private"
    PUBLIC = "public"


def open_hub(repository: str, token: str, visibility: Visibility) -> HfApi:
    """The Hub's client, when the token and the repository are such that an upload can succeed.

    Raises:
        UserError: The token is refused or may only read, or the repository is public and is asked
            to be private.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    _check_token(api)
    _check_visibility(api, repository, visibility)
    return api


def make_repository(api: HfApi, repository: str, visibility: Visibility) -> None:
    """Makes the repository where it is not there.

    Raises:
        UserError: The Hub refuses, or cannot be reached.
    """
    is_private = visibility is Visibility.PRIVATE
    retried(
        lambda: api.create_repo(repository, private=is_private, exist_ok=True),
        f"make {HUB_SCHEME}{repository}",
    )


def _check_token(api: HfApi) -> None:
    try:
        who = retried(api.whoami, "ask whose the token is")
    except UserError as error:
        if error.got not in ("HTTP 401", "HTTP 403"):
            raise
        raise UserError(
            "the Hub's token",
            f"is refused by {api.endpoint}",
            got=error.got,
            fix="Make another one at huggingface.co/settings/tokens. Nothing was uploaded.",
        ) from None
    if who.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise UserError(
            "the Hub's token",
            "may only read",
            fix="Make one that may write at huggingface.co/settings/tokens. Nothing was uploaded.",
        )


def _check_visibility(api: HfApi, repository: str, visibility: Visibility) -> None:
    """A repository that is there keeps its visibility: it must be no wider than was asked for."""
    if visibility is Visibility.PUBLIC:
        return
    if not retried(lambda: api.repo_exists(repository), f"look for {HUB_SCHEME}{repository}"):
        return
    info = retried(lambda: api.model_info(repository), f"look at {HUB_SCHEME}{repository}")
    if not info.private:
        raise UserError(
            HUB_SCHEME + repository,
            "is there already, and public",
            expected="a private one",
            fix="Give another name, or --visibility public. Nothing was uploaded.",
        )


def retried(work: Callable[[], Result], what: str) -> Result:
    """The result of `work`, tried again where the network or the Hub failed for a while."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            return work()
        except OSError as error:
            # Its text may hold a signed address: only the code and the Hub's own words are shown.
            status = getattr(getattr(error, "response", None), "status_code", None)
            if attempt == MAX_ATTEMPTS or not _may_pass(status):
                raise _refusal(error, status, what) from None
            seconds = FIRST_WAIT_SECONDS * 2 ** (attempt - 1)
            logger.warning("the Hub did not %s: again in %g s", what, seconds)
            time.sleep(seconds)
    raise AssertionError


def _may_pass(status: int | None) -> bool:
    return status is None or status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR


def _refusal(error: OSError, status: int | None, what: str) -> UserError:
    said = getattr(error, "server_message", None)
    return UserError(
        "the Hub",
        f"did not {what}" + (f": {said}" if said else ""),
        got=f"HTTP {status}" if status else type(error).__name__,
        fix="Check the name and the token's rights, and run the same command again: it goes on.",
    )
