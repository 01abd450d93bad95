"""Proxies that hold streams back, as some on the way to a server do."""

from __future__ import annotations

from remote.delay_line import DelayProxy


class BuffersDown(DelayProxy):
    """Passes streams on when they have ended."""

    def is_complete(self, gathered: bytes, *, is_down: bool) -> bool:
        return not is_down or b'"gen"' not in gathered or b'"finish"' in gathered


class BuffersUp(DelayProxy):
    """Passes uploads on when they have ended."""

    def is_complete(self, gathered: bytes, *, is_down: bool) -> bool:
        is_upload = b"transfer-encoding: chunked" in gathered.lower()
        return is_down or not is_upload or gathered.endswith(b"0\r\n\r\n")
