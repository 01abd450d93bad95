"""Sizes as a person reads them."""

from __future__ import annotations

from rich.filesize import decimal


def readable_size(size: int) -> str:
    """Bytes in the decimal units that disks and download pages use: 1117320768 is 1.1 GB."""
    return decimal(size)
