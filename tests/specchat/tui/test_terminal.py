from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.chat import run_chat
from specchat.errors import SpecchatError
from specchat.tui.terminal import terminal_for_screen

SCREEN_AND_AFTER = """
import os, sys
from pathlib import Path
from specchat.tui.terminal import terminal_for_screen
with terminal_for_screen(Path(sys.argv[1])):
    sys.__stderr__.write("screen")
    os.write(2, b"from llama.cpp")
os.write(2, b"after")
"""

SCREEN_OF_A_LOST_TERMINAL = """
import os, sys
from pathlib import Path
from specchat.tui.terminal import terminal_for_screen
ours, theirs = os.openpty()
os.dup2(theirs, 2)
with terminal_for_screen(Path(sys.argv[1])):
    os.close(ours)
    sys.__stderr__.write("a frame")
    sys.__stderr__.flush()
print("done")
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors of POSIX")


def test_the_screen_and_what_c_code_prints_never_meet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with terminal_for_screen(log):
        assert sys.__stderr__ is not None
        sys.__stderr__.write("a frame · ")
        sys.stderr.write("a last line\n")
        os.write(2, b"from llama.cpp\n")
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "a frame · a last line\nafterwards\n"
    assert log.read_text() == "from llama.cpp\n"


def test_without_a_log_everything_stays_as_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with terminal_for_screen(tmp_path / "missing" / "log"):
        sys.stderr.write("a frame")
    assert capfd.readouterr().err == "a frame"


def test_with_standard_error_sent_elsewhere_the_screen_is_on_standard_output(
    tmp_path: Path,
) -> None:
    """As after `specchat 2>errors`, where Textual alone would leave the terminal blank."""
    ours, theirs = os.openpty()
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        subprocess.run(
            [sys.executable, "-c", SCREEN_AND_AFTER, str(tmp_path / "log")],
            stdin=theirs,
            stdout=theirs,
            stderr=file,
            check=True,
        )
    os.close(theirs)
    assert os.read(ours, 1000) == b"screen"
    os.close(ours)
    assert errors.read_text() == "after"


def test_what_is_written_after_the_terminal_has_gone_is_dropped(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCREEN_OF_A_LOST_TERMINAL, str(tmp_path / "log")]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"done\n"


def test_a_terminal_without_a_screen_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(SpecchatError, match=r"TERM=dumb.*specchat ask"):
        run_chat({})
