"""What can go wrong with models and their files."""

from __future__ import annotations

from specchat.errors import SpecchatError


class RegistryError(SpecchatError):
    """`models.toml` is invalid, or a name is not in it; the message names file and entry."""


class SourceError(SpecchatError):
    """One source cannot give its file; the next one is asked. The message is the cause alone."""


class DownloadError(SpecchatError):
    """A model cannot be had: every source failed, no space, offline."""


class DownloadCancelledError(SpecchatError):
    """The person stopped a download; what came so far is kept and the next one goes on there."""


class MemoryShortageError(SpecchatError):
    """A model or pair does not fit into memory; the message has all sizes."""
