"""Progress events of the runtime on standard error, gone as soon as text comes."""

from __future__ import annotations

import threading

import click
from rich.progress import BarColumn, TaskID, TaskProgressColumn

from specchat.cli.download_progress import DownloadProgress
from specchat.cli.progress_bar import progress_bar
from specchat.printable import one_line
from specengine.core.events import Progress

_VERBS = {
    "load": "loading",
    "measure": "measuring",
    "prompt": "reading",
    "wait": "waiting:",
}


class EventProgress:
    """Shows Progress events for the length of a `with` block, from whatever thread they come."""

    def __init__(self) -> None:
        self._bar = progress_bar(BarColumn(), TaskProgressColumn())
        self._task: TaskID | None = None
        self._download: DownloadProgress | None = None
        self._showing: tuple[str, str] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> EventProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def update(self, event: Progress) -> None:
        with self._lock:
            if self._showing != (event.stage, event.label):
                self._close()
                self._open(event)
            if self._download is not None:
                self._download.update(event.done, event.total)
            elif self._task is not None:
                self._bar.update(self._task, completed=event.done, total=event.total or None)

    def clear(self) -> None:
        """Take away whatever shows: text is about to be printed."""
        with self._lock:
            self._close()

    def _open(self, event: Progress) -> None:
        self._showing = (event.stage, event.label)
        if event.stage == "download":
            self._download = DownloadProgress(event.label)
            self._download.__enter__()
        else:
            self._bar.start()
            text = one_line(f"{_VERBS[event.stage]} {event.label}")
            if event.stage == "wait" and self._bar.disable:  # in a pipe: nobody knows for how long
                click.echo(f"specchat: {text}", err=True)
            self._task = self._bar.add_task(text, total=None)

    def _close(self) -> None:
        if self._download is not None:
            self._download.__exit__(None, None, None)
            self._download = None
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._bar.stop()
            self._task = None
        self._showing = None
