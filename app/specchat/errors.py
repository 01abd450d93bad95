"""Errors of the app: each is one line for a person, printed without a traceback, exit code 1."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class SpecchatError(Exception):
    """Base of the app's errors. `str(error)` says what is wrong, where, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown `name`: the most similar of the known ones, or else all."""
    known = list(known)
    if near := difflib.get_close_matches(name.lower(), known, n=1):
        return f", did you mean {near[0]!r}?"
    return f" (known: {', '.join(known)})" if known else ""


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong, after its place where it has one; never with the value."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    cause = first["msg"].removeprefix("Value error, ")
    return f"{place}: {cause}" if place else cause
