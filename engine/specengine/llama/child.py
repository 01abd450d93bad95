"""A child process that may die: run to its end, and how it ended in words."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

from specengine.core.errors import CancelledError

_POLL_S = 0.02

# How Windows tells what signals tell elsewhere.
_WINDOWS_DEATHS = {
    0xC000001D: signal.SIGILL,
    0xC0000005: signal.SIGSEGV,
    0xC00000FD: signal.SIGSEGV,  # the stack is full
    0xC0000094: signal.SIGFPE,
    0xC0000409: signal.SIGABRT,
}
_WINDOWS_ABORT = 3  # what abort() ends with there
_SIGNAL_NAMES = {each.value: each.name for each in signal.Signals}
_CAUSES = {"SIGABRT": "a failed check"}
_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """What a child printed, and how it ended otherwise than well.

    `death` is a clause ("dies of ..."), `error` its own last line. `lasting` is whether another
    run would end the same way.
    """

    stdout: bytes = b""
    death: str | None = None
    error: str | None = None
    lasting: bool = True


def run_child(command: Sequence[str], timeout_s: float, cancel: Event | None = None) -> ChildEnd:
    """Run `command` to its end. Raises OSError where it cannot be started, CancelledError."""
    deadline = time.monotonic() + timeout_s
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        ) as process:
            try:
                while process.poll() is None and time.monotonic() < deadline:
                    if cancel is not None and cancel.is_set():
                        raise CancelledError("the trial of a model was cancelled")
                    time.sleep(_POLL_S)
                code = process.poll()
            finally:
                process.kill()  # nothing where it has ended
        output.seek(0)
        errors.seek(0)
        if code is None:
            death = f"does not answer within {timeout_s:g} s"
            return ChildEnd(output.read(), death=death, lasting=False)
        return ended(code, output.read(), errors.read())


def ended(code: int, stdout: bytes, stderr: bytes) -> ChildEnd:
    """What the exit code of a child that ended by itself tells."""
    number = -code
    if sys.platform == "win32" and code == _WINDOWS_ABORT:
        number = signal.SIGABRT
    number = _WINDOWS_DEATHS.get(code, number)
    if number > 0:
        name = _SIGNAL_NAMES.get(number, f"signal {number}")
        cause = _CAUSES.get(name) or (signal.strsignal(number) or "an unknown signal").lower()
        death = f"crashes with {cause} ({name})"
        # From outside: from the kernel that is out of memory, for instance.
        return ChildEnd(stdout, death=death, lasting=name not in _FROM_OUTSIDE)
    if code:
        lines = stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        return ChildEnd(stdout, error=lines[-1], lasting=False)
    return ChildEnd(stdout)
