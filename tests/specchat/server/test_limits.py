"""What a server takes is what its own client sends."""

from __future__ import annotations

from collections.abc import Sequence

from specchat.backends.verify_server.client import hint_line
from specchat.server.limits import Limits
from specengine.core.events import Unverified
from specengine.stream.committed import Ended
from specengine.stream.duplex import answer_with_hints
from specengine.stream.target_stream import StreamEvent
from specengine.stream.unverified import PartialAnswer
from support.fake_stream import MODEL, FakeStream, V
from support.fakes import FakeVocab


class Hinted(FakeStream):
    """Takes every hint, and then ends."""

    def __init__(self) -> None:
        super().__init__(MODEL, [1, 2, 3], 400)
        self.lines: list[bytes] = []

    def hint(self, pos: int, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        self.hints.append(list(tokens))
        largest = [2**31 - 1] * len(tokens)
        self.lines.append(hint_line(2**53, 2**31 - 1, prefix_hash, largest))

    def wait(self, timeout: float) -> list[StreamEvent]:
        return [Ended("length")]


def test_the_largest_hints_of_the_client_are_taken() -> None:
    stream, limits = Hinted(), Limits()
    begun = PartialAnswer(
        (5,) * 200, Unverified(0, 0, "draft model", seed=1)
    )  # all of it is to be verified
    for _ in answer_with_hints(stream, FakeVocab(V), [], [1, 2, 3], begun=begun):
        pass
    assert sum(map(len, stream.hints)) == 200
    assert max(map(len, stream.hints)) <= limits.hint_tokens
    assert max(map(len, stream.lines)) <= limits.line
