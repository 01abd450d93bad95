"""Download progress on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time

from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

from specchat.cli.progress_bar import progress_bar
from specchat.models.sizes import readable_size

_LINE_EVERY_S = 10.0


class DownloadProgress:
    """Shows one model's download for the length of a `with` block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar = progress_bar(
            BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        )
        self._task = self._bar.add_task(name, total=None, visible=False)
        self._next_line = time.monotonic()

    def __enter__(self) -> DownloadProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """Bytes so far, of `total` (0 where unknown)."""
        if not self._bar.disable:
            self._bar.update(self._task, completed=done, total=total or None, visible=True)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            of_all = f" of {readable_size(total)}" if total else ""
            self._line(f"{self._name}: {readable_size(done)}{of_all}")

    def notice(self, text: str) -> None:
        """A line above the bar."""
        if self._bar.disable:
            self._line(text)
        else:
            self._bar.console.print(text, markup=False, highlight=False)

    def _line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
