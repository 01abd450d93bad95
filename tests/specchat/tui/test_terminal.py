from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from specchat.tui.terminal import terminal_for_screen

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


def test_a_grammar_that_is_refused_meanwhile_takes_no_frame_with_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from specengine.grammar import _captured_stderr

    with terminal_for_screen(tmp_path / "log"), _captured_stderr() as printed:
        sys.stderr.write("a frame")
        sys.stderr.flush()
        os.write(2, b"error parsing grammar")
    assert printed == ["error parsing grammar"]
    assert capfd.readouterr().err == "a frame"


def test_without_a_log_everything_stays_as_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with terminal_for_screen(tmp_path / "missing" / "log"):
        sys.stderr.write("a frame")
    assert capfd.readouterr().err == "a frame"
