"""Reads what training needs of a GGUF's metadata."""

from __future__ import annotations

from typing import Any

from gguf import GGUFReader


def value(reader: GGUFReader, key: str) -> Any:
    """Raises ValueError where the file lacks `key`."""
    field = reader.get_field(key)
    if field is None:
        raise ValueError(f"the model's metadata lacks {key}")
    return field.contents()
