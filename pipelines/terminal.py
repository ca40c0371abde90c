"""A child process whose output is shown as it comes, and kept."""

import codecs
import contextlib
import os
import pty
import shutil
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import TextIO

_PIECE_BYTES = 1 << 16


def run_shown(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    screen: TextIO,
    log: Path,
    keep_open: tuple[int, ...] = (),
) -> int:
    """Runs a command to its end; its output goes to the screen and, line by line, to a log.

    Where the screen is a terminal the child gets one too, so that its progress bars move; the
    log keeps only the last state of each.

    Args:
        command: The program and its arguments.
        environment: The child's whole environment.
        screen: Where its output is shown.
        log: The file that it is added to.
        keep_open: File descriptors that the child inherits.

    Returns:
        The exit code; negative for a signal.
    """
    reader, writer = pty.openpty() if screen.isatty() else os.pipe()
    if screen.isatty():
        size = shutil.get_terminal_size()
        ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))
    process = subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
        pass_fds=keep_open,
    )
    os.close(writer)
    try:
        with log.open("a", encoding="utf-8") as file:
            _copy(reader, screen, file)
        return process.wait()
    finally:
        os.close(reader)
        _end(process)


def _copy(reader: int, screen: TextIO, log: TextIO) -> None:
    line = ""
    for text in _decoded(reader):
        screen.write(text)
        screen.flush()
        *lines, line = (line + text).split("\n")
        log.writelines(_last_state(entry) + "\n" for entry in lines)
        log.flush()
    if line:
        log.write(_last_state(line) + "\n")
        screen.write("\n")


def _decoded(reader: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A terminal whose other end is closed gives an error where a pipe gives an empty read.
    with contextlib.suppress(OSError):
        while piece := os.read(reader, _PIECE_BYTES):
            yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _last_state(line: str) -> str:
    return line.rstrip("\r").rsplit("\r", 1)[-1]


def _end(process: subprocess.Popen) -> None:
    """Asks a child that still runs to stop, for it to keep what it has, and waits."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
