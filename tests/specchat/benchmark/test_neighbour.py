"""The busy neighbour."""

import subprocess

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
