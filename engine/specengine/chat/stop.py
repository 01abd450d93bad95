"""Stop strings, which may begin in one token and end several rounds later."""

from __future__ import annotations

from collections.abc import Sequence


class StopFilter:
    """Lets through the bytes that cannot belong to a stop string any more.

    It works on UTF-8 bytes, where a match is a match of characters, so that a token which ends
    within a character needs no special case.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        # A lone surrogate is no character of any answer; as UTF-8 might hold it, it meets none.
        self._stops = [stop.encode(errors="surrogatepass") for stop in stops if stop]
        self._held = b""
        self._passed = 0
        self.cut: int | None = None
        """Offset of the first byte of the stop string that was met, in all bytes fed."""
        self.met: str | None = None
        """That stop string."""

    def feed(self, data: bytes) -> bytes:
        """Bytes that may be shown now. After a stop string nothing passes any more."""
        if self.cut is not None:
            return b""
        if not self._stops:
            return data
        self._held += data
        # The match that ends first is the one that a byte-by-byte reader meets first.
        matches = [
            (at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0
        ]
        if not matches:
            return self._pass(len(self._held) - self._possible_start())
        end, start = min(matches)
        self.met = self._held[start:end].decode()
        self.cut = self._passed + start
        return self._pass(start)

    def finish(self) -> bytes:
        """What was held back, now that no stop string can follow."""
        return b"" if self.cut is not None else self._pass(len(self._held))

    def _possible_start(self) -> int:
        """Length of the longest suffix held that begins a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-n:]) for stop in self._stops):
                return n
        return 0

    def _pass(self, n: int) -> bytes:
        passed, self._held = self._held[:n], self._held[n:]
        self._passed += n
        return passed
