"""A child's output on the screen and in its log."""

import io
import os
import pty
import sys

from pipelines.terminal import run_shown


def show(tmp_path, code, screen=None):
    screen = screen or io.StringIO()
    log = tmp_path / "child.log"
    command = [sys.executable, "-c", code]
    return run_shown(command, environment=os.environ, screen=screen, log=log), screen, log


def test_both_streams_are_shown_and_kept(tmp_path):
    code = "import sys; print('out', flush=True); print('err é', file=sys.stderr); sys.exit(3)"
    exit_code, screen, log = show(tmp_path, code)
    assert exit_code == 3
    assert screen.getvalue() == log.read_text() == "out\nerr é\n"


def test_the_log_keeps_the_last_state_of_a_progress_bar(tmp_path):
    _, screen, log = show(tmp_path, r"print('1%\r2%\r100%\ndone', end='')")
    assert "1%\r2%" in screen.getvalue()
    assert log.read_text() == "100%\ndone\n"


def test_bytes_that_are_no_utf8_do_not_stop_it(tmp_path):
    exit_code, _, log = show(tmp_path, r"import os; os.write(1, b'a\xff\nb\n')")
    assert (exit_code, log.read_text()) == (0, "a\ufffd\nb\n")


def test_a_child_has_a_terminal_where_we_have_one(tmp_path):
    reader, writer = pty.openpty()
    code = "import sys; print(sys.stderr.isatty(), sys.stdout.isatty())"
    with os.fdopen(writer, "w") as screen:
        assert screen.isatty()
        show(tmp_path, code, screen)
    os.close(reader)
    assert (tmp_path / "child.log").read_text() == "True True\n"
    show(tmp_path, code)
    assert (tmp_path / "child.log").read_text() == "True True\nFalse False\n"
