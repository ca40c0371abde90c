"""Publishing to a repository of the Hugging Face Hub: checked, uploaded, committed, compared.

Large files are uploaded one after the other before the one commit that makes them all appear: a
repository never shows half a model, and a run that was killed uploads only what the Hub does not
have yet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from clozeflow.errors import UserError
from clozeflow.publishing.bundle import File
from clozeflow.publishing.config import Visibility
from clozeflow.publishing.destinations import HubRepository, Place

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, HfApi

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS = 1.0
"""Doubled after each attempt."""
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


def open_hub(repository: HubRepository, token: str, visibility: Visibility) -> HfApi:
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


def make_repository(api: HfApi, repository: HubRepository, visibility: Visibility) -> None:
    """Makes the repository where it is not there.

    Raises:
        UserError: The Hub refuses, or cannot be reached.
    """
    name, is_private = repository.repository, visibility is Visibility.PRIVATE
    _retried(lambda: api.create_repo(name, private=is_private, exist_ok=True), f"make {repository}")


def publish_to_hub(
    api: HfApi,
    repository: HubRepository,
    files: Mapping[str, File],
    *,
    visibility: Visibility,
    message: str,
) -> Place:
    """Uploads and commits what is not there yet.

    Args:
        api: From `open_hub`.
        repository: Where to; it is made where it is not there.
        files: What, by the path in the repository.
        visibility: Of a repository that is made.
        message: The commit's.

    Raises:
        UserError: The Hub refuses, cannot be reached, or does not hold what was sent.
    """
    name = repository.repository
    make_repository(api, repository, visibility)
    operations = [_operation(path, file) for path, file in files.items()]
    for operation in operations:
        _upload(api, name, operation)
    commit = _retried(
        lambda: api.create_commit(name, operations, commit_message=message),
        f"commit to {repository}",
    )
    check_arrived(api, repository, files, commit.oid)
    return Place.of(repository, url=f"{api.endpoint}/{name}/tree/{commit.oid}", revision=commit.oid)


def check_arrived(
    api: HfApi, repository: HubRepository, files: Mapping[str, File], revision: str
) -> None:
    """Compares what the Hub holds with what was sent: every size, and the hashes of large files.

    Raises:
        UserError: The first file that differs.
    """
    found = _retried(
        lambda: api.get_paths_info(repository.repository, list(files), revision=revision),
        f"look at {repository}",
    )
    there = {entry.path: entry for entry in found}
    for path, file in files.items():
        entry = there.get(path)
        large = getattr(entry, "lfs", None)
        size = getattr(entry, "size", None)
        if size != file.entry.num_bytes or (large and large.sha256 != file.entry.sha256):
            raise UserError(
                f"{repository}/{path}",
                "is not what was sent",
                got="no such file" if size is None else f"{size:,} bytes",
                expected=f"{file.entry.num_bytes:,} bytes",
                fix="Run the same command again: it uploads what is missing.",
            )


def _check_token(api: HfApi) -> None:
    try:
        who = _retried(api.whoami, "ask whose the token is")
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


def _check_visibility(api: HfApi, repository: HubRepository, visibility: Visibility) -> None:
    """A repository that is there keeps its visibility: it must be no wider than was asked for."""
    if visibility is Visibility.PUBLIC:
        return
    if not _retried(lambda: api.repo_exists(repository.repository), f"look for {repository}"):
        return
    info = _retried(lambda: api.model_info(repository.repository), f"look at {repository}")
    if not info.private:
        raise UserError(
            str(repository),
            "is there already, and public",
            expected="a private one",
            fix="Give another name, or --visibility public. Nothing was uploaded.",
        )


def _operation(path: str, file: File) -> CommitOperationAdd:
    from huggingface_hub import CommitOperationAdd

    source = file.source if isinstance(file.source, bytes) else str(file.source)
    return CommitOperationAdd(path_in_repo=path, path_or_fileobj=source)


def _upload(api: HfApi, name: str, operation: CommitOperationAdd) -> None:
    """Sends a file's content, if it is large and the Hub has no such content yet."""
    logger.info("%s", operation.path_in_repo)
    _retried(lambda: api.preupload_lfs_files(name, [operation]), f"upload {operation.path_in_repo}")


def _retried(work: Callable[[], Result], what: str) -> Result:
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
