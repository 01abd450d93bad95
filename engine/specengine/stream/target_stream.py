"""One answer of a remote target as its client sees it: a stream of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from specengine.stream.committed import Committed, Ended


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know of the connection, one line."""

    text: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The target takes hints from now on, and has none of those that were sent before."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is lost; it may come back. `cause` is one line."""

    cause: str


StreamEvent = Committed | Ended | Notice | Opened | Cut


class TargetStream(Protocol):
    """One answer of a remote target, under way. Survives whatever happens to the connection."""

    @property
    def lead(self) -> int:
        """Draft tokens ahead of the committed ones that can be of use: what the target commits
        during a round trip, and what then enters a pass.
        """
        ...

    @property
    def lost(self) -> str | None:
        """Why the answer is to go on without the target, for as long as it is out of reach."""
        ...

    def wait(self, timeout: float) -> list[StreamEvent]:
        """Return what has arrived, after at most `timeout` seconds; often nothing."""
        ...

    def hint(self, pos: int, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        """`tokens` may come at `pos`… after the text with `prefix_hash`. Returns at once."""
        ...

    def close(self) -> None:
        """Tell the target to stop, if it has not."""
        ...
