"""What goes wrong with a remote target."""

from __future__ import annotations

from specchat.errors import SpecchatError


class RemoteError(SpecchatError):
    """Trying again is of no use: a wrong key, another vocabulary, a certificate that is not valid.

    Never holds a key: the messages are made of addresses and of what servers answered.
    """


class TryAgainError(SpecchatError):
    """The server is busy or starting: ask again after `after_s` seconds."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s
