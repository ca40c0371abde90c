"""Files appear whole or not at all, on this machine and on an object store."""

import errno
import socket
import uuid
from pathlib import Path

import pytest

from clozeflow import remote, storage
from clozeflow.errors import UserError


@pytest.fixture(params=["local", "remote"])
def folder(request, tmp_path):
    """A folder of each kind; fsspec's own memory file system stands for an object store."""
    return str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}"


def test_write_read_list(folder):
    storage.write_text(storage.join(folder, "a/b.txt"), "é\n")
    storage.write_bytes(storage.join(folder, "c"), b"\0\1")
    assert storage.read_text(storage.join(folder, "a/b.txt")) == "é\n"
    assert storage.list_files(folder) == ["a/b.txt", "c"]
    assert storage.size_bytes(storage.join(folder, "c")) == 2
    assert storage.is_file(storage.join(folder, "c"))
    assert not storage.is_file(storage.join(folder, "a"))


def test_failed_write_leaves_the_old_file_and_no_rest(folder):
    location = storage.join(folder, "file")
    storage.write_text(location, "old")
    with pytest.raises(RuntimeError), storage.atomic_writer(location) as file:
        file.write(b"half")
        raise RuntimeError
    assert storage.read_text(location) == "old"
    assert storage.list_files(folder) == ["file"]


def test_file_is_not_there_before_it_is_whole(folder):
    location = storage.join(folder, "file")
    with storage.atomic_writer(location) as file:
        file.write(b"x" * 100_000)
        assert not storage.is_file(location)
    assert storage.size_bytes(location) == 100_000


def test_glob_gives_locations_that_open_again(folder):
    for name in ("b.txt", "a.txt", "c.json"):
        storage.write_text(storage.join(folder, name), name)
    found = storage.glob(storage.join(folder, "*.txt"))
    assert [storage.read_text(location) for location in found] == ["a.txt", "b.txt"]


def test_missing_file_is_one_clear_error(folder):
    with pytest.raises(UserError, match="there is no such file"):
        storage.open_read(storage.join(folder, "nothing"))


def test_remove(folder):
    storage.write_text(storage.join(folder, "a/b"), "")
    storage.remove_folder(storage.join(folder, "a"))
    storage.remove_folder(storage.join(folder, "never"))
    storage.remove_file(storage.join(folder, "never"))
    assert storage.list_files(folder) == []


def test_local_and_output_folders_round_trip(folder):
    with storage.output_folder(storage.join(folder, "model")) as path:
        (path / "sub").mkdir()
        (path / "sub" / "weights").write_bytes(b"123")
    with storage.local_folder(storage.join(folder, "model")) as path:
        assert (path / "sub" / "weights").read_bytes() == b"123"


def test_nothing_is_uploaded_when_the_work_fails():
    folder = f"memory://{uuid.uuid4().hex}/model"
    with pytest.raises(RuntimeError), storage.output_folder(folder) as path:
        (path / "weights").write_bytes(b"123")
        raise RuntimeError
    assert storage.list_files(folder) == []


def test_full_disk_is_said_in_words():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    error = None
    try:
        Path("/dev/full").write_bytes(b"x")
    except OSError as full:
        error = full
    with pytest.raises(UserError, match="disk is full"):
        raise storage.write_error("x", error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Unable to write (errno = 28, error message = 'No space left on device')"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_library_that_meets_the_full_disk(tmp_path, error):
    in_words = pytest.raises(UserError, match="weights: the disk is full")
    with in_words, storage.atomic_path(f"{tmp_path}/weights"):
        raise error
    as_it_was = pytest.raises(RuntimeError, match="of another kind")
    with as_it_was, storage.refusals_in_words("x"):
        raise RuntimeError("of another kind")


def test_a_file_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        storage.write_text(f"{tmp_path}/file/below", "x")


@pytest.mark.parametrize("location", ["s3://bucket/a.txt", "nothing://x"])
def test_a_kind_of_storage_that_is_not_installed(location):
    with pytest.raises(UserError, match="this kind of storage cannot be opened"):
        storage.is_file(location)


def test_no_way_to_google_is_said_in_the_first_second(monkeypatch):
    def no_address(*_):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr("urllib.request.getproxies", dict)
    remote._host_is_known.cache_clear()
    with pytest.raises(UserError, match=r"gs://bucket/a\.txt: cannot be reached"):
        storage.is_file("gs://bucket/a.txt")
    remote._host_is_known.cache_clear()
