"""Publishing to a repository of the Hugging Face Hub: checked, uploaded, committed, compared.

Large files are uploaded one after the other before the one commit that makes them all appear: a
repository never shows half a model, and a run that was killed uploads only what the Hub does not
have yet.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from clozeflow.errors import UserError
from clozeflow.hub_client import Visibility, make_repository, retried
from clozeflow.publishing.bundle import File
from clozeflow.publishing.destinations import HubRepository, Place

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, HfApi

logger = logging.getLogger(__name__)


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
    make_repository(api, name, visibility)
    operations = [_operation(path, file) for path, file in files.items()]
    for operation in operations:
        _upload(api, name, operation)
    commit = retried(
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
    found = retried(
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


def _operation(path: str, file: File) -> CommitOperationAdd:
    from huggingface_hub import CommitOperationAdd

    source = file.source if isinstance(file.source, bytes) else str(file.source)
    return CommitOperationAdd(path_in_repo=path, path_or_fileobj=source)


def _upload(api: HfApi, name: str, operation: CommitOperationAdd) -> None:
    """Sends a file's content, if it is large and the Hub has no such content yet."""
    logger.info("%s", operation.path_in_repo)
    retried(lambda: api.preupload_lfs_files(name, [operation]), f"upload {operation.path_in_repo}")
