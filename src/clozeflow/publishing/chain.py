"""What a model was made of, as far as the manifests can still be found."""

from __future__ import annotations

from collections.abc import Iterator

from clozeflow import artifacts, storage
from clozeflow.artifacts import ArtifactType, InputRef, Manifest
from clozeflow.errors import UserError


def ancestors(manifest: Manifest) -> list[tuple[InputRef, Manifest | None]]:
    """Every input, of inputs too, once; with its manifest where it is still at its place."""
    found: dict[str, tuple[InputRef, Manifest | None]] = {}
    for ref, parent in _walk(manifest):
        if ref.fingerprint not in found or parent:
            found[ref.fingerprint] = (ref, parent)
    return list(found.values())


def _walk(manifest: Manifest) -> Iterator[tuple[InputRef, Manifest | None]]:
    for ref in manifest.inputs:
        parent = _manifest_of(ref)
        yield ref, parent
        if parent:
            yield from _walk(parent)


def _manifest_of(ref: InputRef) -> Manifest | None:
    if ref.type not in set(ArtifactType) or not ref.uri or not artifacts.is_finished(ref.uri):
        return None
    try:
        manifest = artifacts.read_manifest(ref.uri)
    except UserError:
        return None
    return manifest if manifest.fingerprint == ref.fingerprint else None


def public_name(ref: InputRef) -> str:
    """Where something was, without the folders of the machine that it was on."""
    is_path = not storage.is_remote(ref.uri) and "/" in ref.uri and not ref.uri.startswith("hf:")
    return ref.uri.rsplit("/", 1)[-1] if is_path else ref.uri
