"""Errors of the app: each is one line for a person, printed without a traceback, exit code 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class SpecchatError(Exception):
    """Base of the app's errors. `str(error)` says what is wrong, where, and what to do."""


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong, after its place where it has one; never with the value."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    cause = first["msg"].removeprefix("Value error, ")
    return f"{place}: {cause}" if place else cause
