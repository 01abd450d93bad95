"""What a run measured, as `specchat bench --json` prints it and `bench/results/` keeps it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from specchat.doctor.machine import Machine, ModelFile, ModelInfo, Record
from specengine.core.events import FinishReason
from specengine.sampling import SamplingParams


class SideInfo(Record):
    name: str
    description: str


class Condition(Record):
    """How tokens are sampled, and beside what."""

    name: str
    sampling: SamplingParams
    busy_neighbour: bool = False
    """Whether a neighbour process keeps one core busy."""
    thorough: bool = True
    """False: only the first prompt of each category, answered by the target alone, the controller
    and what is not our own pair: enough for one row.
    """


class OwnTiming(Record):
    """What a side says of itself, in seconds; None if it does not."""

    prompt_s: float | None = None
    decode_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    overhead_s: float | None = None


class Measured(Record):
    """What one answer cost. Times are taken where the text arrives, in the same way for all."""

    prompt_tokens: int
    completion_tokens: int
    finish_reason: FinishReason
    ttft_s: float
    decode_s: float
    """From the first token to the end of the answer."""
    own: OwnTiming
    target_passes: int
    drafted: int
    accepted: int
    digest: str
    """BLAKE2b of the text: equal for equal answers."""

    @property
    def tokens_per_s(self) -> float | None:
        """After the first token, which belongs to the prompt."""
        if self.completion_tokens < 2 or self.decode_s <= 0:
            return None
        return (self.completion_tokens - 1) / self.decode_s


class Sample(Measured):
    """An answer of one side, and what it was an answer to."""

    condition: str
    category: str
    prompt: str
    turn: int
    """From 1; above 1 only in chats."""
    repeat: int
    side: str
    energy_j: float | None
    """Of the whole machine, from the question to the end of the answer."""


class Spread(Record):
    """Median and quartiles."""

    median: float
    low: float
    high: float


class Figures(Record):
    """One side in one category, over all its answers. Category None: in all of them."""

    condition: str
    category: str | None
    side: str
    answers: int
    tokens_per_s: Spread | None
    ttft_s: Spread
    completion_tokens: Spread
    acceptance_rate: float | None
    tokens_per_pass: float | None
    overhead: float | None
    """overhead_s / decode_s of the side's own timing."""
    joules_per_token: float | None
    same_text: float | None
    """Share of greedy answers with the very tokens of the target alone."""


class Worst(Record):
    prompt: str
    turn: int
    ratio: float


class Comparison(Record):
    """How many times as fast as another side, whose answers were measured in turn with it.

    The ratio of a prompt is the median over its repeats; `ratio` is the spread over prompts.
    Category None: the geometric mean of the categories' medians.
    """

    condition: str
    category: str | None
    side: str
    over: str
    prompts: int
    ratio: Spread
    worst: Worst
    of_bound: float | None
    """Share of the speed of a free, perfect drafter; only over the target alone."""
    of_fixed: float | None = None
    """Share of the best fixed choice in this category, the target alone among them; only for the
    controller over the target alone. Category None: the geometric mean of the shares.
    """


class Report(Record):
    format: Literal[1] = 1
    specchat: str
    started_at: datetime
    complete: bool
    """False: the run was interrupted, and this is what it had measured."""
    machine: Machine
    profile: str
    target: ModelFile
    draft: ModelFile | None
    peer_draft: ModelInfo | None = None
    """What drafts for sides that are not our own pair."""
    sides: tuple[SideInfo, ...]
    conditions: tuple[Condition, ...]
    max_tokens: int
    repeats: int
    reproducible: bool
    bound: float
    """max_n n/v(n)·v(1): the speed-up of a drafter that is free and always right."""
    figures: tuple[Figures, ...]
    comparisons: tuple[Comparison, ...]
    samples: tuple[Sample, ...]
