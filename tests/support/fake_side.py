"""A side of the benchmark that answers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.report import Measured, OwnTiming
from specchat.benchmark.sides import Answer, digest
from specengine.chat.chat_template import Turn
from specengine.sampling import SamplingParams


@dataclass
class FakeSide:
    """Answers with the number of its answers since it last forgot; `failing_at`: never so many."""

    name: str
    description: str = ""
    asked: list[list[Turn]] = field(default_factory=list)
    failing_at: int | None = None
    _since: int = 0

    async def forget(self) -> None:
        self._since = 0

    async def answer(self, turns: Sequence[Turn], sampling: SamplingParams) -> Answer:
        self.asked.append(list(turns))
        if len(self.asked) == self.failing_at:
            raise BenchmarkError(f"{self.name} broke")
        self._since += 1
        text = f"{self.name} {self._since}"
        measured = Measured(
            prompt_tokens=1,
            completion_tokens=self._since,
            finish_reason="stop",
            ttft_s=0.1,
            decode_s=1.0,
            own=OwnTiming(),
            target_passes=1,
            drafted=0,
            accepted=0,
            digest=digest(text),
        )
        return Answer(text, (self._since,), measured)
