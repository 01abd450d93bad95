"""Telling a running writer from a dead one whose process id was given out again."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from specchat.chats.liveness import is_running, process_mark


def test_this_process_runs() -> None:
    assert is_running(process_mark())


def test_another_process_with_the_same_id_does_not_count() -> None:
    process = psutil.Process()
    assert not is_running(f"{process.pid}@{process.create_time() - 3600}")


def test_a_process_that_has_ended_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = f"{child.pid}@{psutil.Process(child.pid).create_time()}"
    assert is_running(mark)
    child.kill()
    child.wait()
    assert not is_running(mark)


@pytest.mark.skipif(sys.platform == "win32", reason="nobody has to wait for a process there")
def test_a_process_that_was_killed_and_not_waited_for_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    mark = f"{child.pid}@{process.create_time()}"
    child.kill()
    while process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert not is_running(mark)
    child.wait()


@pytest.mark.parametrize("mark", ["", "1", "x@y", "-1@0"])
def test_what_is_no_mark_does_not_run(mark: str) -> None:
    assert not is_running(mark)
