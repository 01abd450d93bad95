"""The bar on standard error that progress is shown with; nothing if that is not a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A description, and `columns` after it; gone when it is stopped."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        *columns,
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
