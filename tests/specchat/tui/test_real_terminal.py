"""The chat from its first moment in a real terminal until that is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.config import locations
from support.command_line import environment

if sys.platform == "win32":
    pytest.skip("there Textual's own driver is used", allow_module_level=True)

_DRAWN = b"\x1b[?1049h"  # the terminal shows the screen from here on


def test_nothing_typed_is_lost_from_the_start_to_the_end_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the controlling terminal: the kernel tells nobody that it is gone."""
    ours, theirs = os.openpty()
    chat = subprocess.Popen(
        [sys.executable, "-m", "specchat", "--target", str(tmp_path / "none.gguf")],
        env={**environment(tmp_path), "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        os.write(ours, b"typed early")  # before anything was imported
        shown = b""
        while b"typed early" not in shown.partition(_DRAWN)[2]:
            piece = os.read(ours, 1 << 16)
            assert piece
            shown += piece
        os.close(ours)
        assert chat.wait(60) == 0
    finally:
        chat.kill()
        chat.wait()
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    assert (locations.state_dir() / "unsent.txt").read_text() == "typed early"
