"""The busy neighbour."""

import contextlib
import subprocess
import sys

import psutil
import pytest

from specchat.benchmark.neighbour import busy_neighbour


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_it_runs_inside_the_block_and_is_gone_after_it() -> None:
    before = children()
    with busy_neighbour():
        [pid] = children() - before
        assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    assert not psutil.pid_exists(pid)


def test_it_is_gone_after_an_error_too() -> None:
    before = children()
    with pytest.raises(subprocess.SubprocessError), busy_neighbour():
        raise subprocess.SubprocessError
    assert children() == before


def test_it_does_not_outlive_a_program_that_is_killed() -> None:
    program = (
        "import os, psutil\n"
        "from specchat.benchmark.neighbour import busy_neighbour\n"
        "with busy_neighbour():\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(result.stdout)).wait(timeout=60)
    assert not psutil.pid_exists(int(result.stdout))
