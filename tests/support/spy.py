"""What a module hands to what it calls."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel


def spied(monkeypatch: pytest.MonkeyPatch, owner: Any, *names: str) -> list[Any]:
    """The calls of `owner`'s functions and classes of these names, from now on, with those of their
    arguments that are plain values.
    """
    calls: list[Any] = []

    def spy(name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append((name, plain(args), plain(kwargs)))
            return real(*args, **kwargs)

        return call

    for name in names:
        monkeypatch.setattr(owner, name, spy(name, getattr(owner, name)))
    return calls


def plain(value: Any) -> Any:
    """`value` without what is no plain value; of an object that has one, the name."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, int | float | str):
        return value
    return getattr(value, "name", None)
