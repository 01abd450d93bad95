"""What comes of a run: kept in a file, whole or not at all, and shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import click
from pydantic import BaseModel
from rich.console import Console, RenderableType

from specchat.benchmark.errors import BenchmarkError

_WIDE = 200  # columns of tables that no terminal shows

R = TypeVar("R", bound=BaseModel)


class ResultFile:
    """Where a run is kept; without a path, nowhere."""

    def __init__(self, path: Path | None) -> None:
        """Raises BenchmarkError if it cannot be written: hours later would be late to learn."""
        self._path = path
        if path is None:
            return
        if path.exists() and not path.is_file():
            raise BenchmarkError(f"{path} cannot be written: it is not a regular file")
        with self._beside(path) as (new, _):
            new.touch()

    def write(self, report: BaseModel) -> None:
        """In place of what is there, which stays where this fails. Raises BenchmarkError."""
        if self._path is not None:
            with self._beside(self._path) as (new, file):
                new.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
                new.replace(file)

    @contextmanager
    def _beside(self, path: Path) -> Iterator[tuple[Path, Path]]:
        """A file to be written first, gone afterwards, and the one that it is for: what `path`
        links to.
        """
        file = Path(os.path.realpath(path))
        new = file.with_name(f"{file.name}.new")
        try:
            yield new, file
        except OSError as error:
            raise BenchmarkError(f"{path} cannot be written: {error.strerror or error}") from error
        finally:
            with suppress(OSError):
                new.unlink()


def finish(
    report: R, render: Callable[[R], RenderableType], result: ResultFile, *, as_json: bool
) -> None:
    """Keep `report`, then show it: no terminal, and nobody who reads a pipe, loses a measurement.

    Raises BenchmarkError if it cannot be kept; it is shown even so.
    """
    try:
        result.write(report)
    finally:
        if as_json:
            click.echo(report.model_dump_json(indent=1))
        else:
            _plain_console().print(render(report))


def _plain_console() -> Console:
    """Shows names as they are written: categories and prompts are whatever somebody called them."""
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console
