"""Progress events on standard error, gone as soon as text comes.

A bar on a terminal; elsewhere a line now and then for a download, and one for a wait: nobody knows
how long these take.
"""

from __future__ import annotations

import threading
import time

import click
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskProgressColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from specchat.cli.progress_bar import progress_bar
from specchat.models.sizes import readable_size
from specchat.printable import one_line
from specengine.core.events import Progress

_WORDS = {
    "download": "{}",
    "load": "loading {}",
    "convert": "converting {}",
    "measure": "measuring {}",
    "prompt": "reading {}",
    "wait": "waiting: {}",
}
_LINE_EVERY_S = 10.0


class EventProgress:
    """Shows Progress events for the length of a `with` block, from whatever thread they come."""

    def __init__(self) -> None:
        self._steps = progress_bar(BarColumn(), TaskProgressColumn())
        self._downloads = progress_bar(
            BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        )
        self._showing: tuple[str, str] | None = None
        self._next_line = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> EventProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def update(self, event: Progress) -> None:
        with self._lock:
            is_new = self._showing != (event.stage, event.label)
            text = one_line(_WORDS[event.stage].format(event.label))
            bar = self._downloads if event.stage == "download" else self._steps
            if is_new:
                self._close()
                self._showing = (event.stage, event.label)
            if bar.disable:
                self._say(event, text, is_new)
                return
            if is_new:
                bar.add_task(text)
            bar.update(bar.task_ids[0], completed=event.done, total=event.total or None)
            bar.start()

    def notice(self, text: str) -> None:
        """A line above the bar of a download."""
        if self._downloads.disable:
            click.echo(text, err=True)
        else:
            self._downloads.console.print(text, markup=False, highlight=False)

    def clear(self) -> None:
        """Take away whatever shows: text is about to be printed."""
        with self._lock:
            self._close()

    def _say(self, event: Progress, text: str, is_new: bool) -> None:
        if event.stage == "wait" and is_new:
            click.echo(f"specchat: {text}", err=True)
        elif event.stage == "download" and (is_new or time.monotonic() >= self._next_line):
            self._next_line = time.monotonic() + _LINE_EVERY_S
            of_all = f" of {readable_size(event.total)}" if event.total else ""
            click.echo(f"{text}: {readable_size(event.done)}{of_all}", err=True)

    def _close(self) -> None:
        for bar in (self._steps, self._downloads):
            for task in bar.task_ids:
                bar.remove_task(task)
                bar.stop()
        self._showing = None
