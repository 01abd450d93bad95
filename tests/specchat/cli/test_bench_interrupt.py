"""A run that is told to end ends as by Ctrl-C."""

import signal
import sys
from collections.abc import Iterator

import pytest

from specchat.cli.bench_interrupt import ended_as_by_ctrl_c

if sys.platform == "win32":
    pytest.skip("no such signals", allow_module_level=True)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Signals are handled as before each test, and by default within it."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_kill_and_the_end_of_the_terminal_are_ctrl_c(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), ended_as_by_ctrl_c():
        signal.raise_signal(number)
    assert signal.getsignal(number) == signal.SIG_DFL


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ended_as_by_ctrl_c():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_run_in_the_background_which_ignores_ctrl_c_is_ended_by_kill() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt), ended_as_by_ctrl_c():
        signal.raise_signal(signal.SIGTERM)
