"""How fast drafting for a remote target is, from what passes, drafts and round trips take.

A discrete-event simulation of `specengine.stream.duplex` on one side of a line and
`specengine.serve` on the other, for machines on which both together would fight for the same
cores. What is measured goes in: v(n), d, and how often the draft's next token is the target's.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from specengine.core.limits import MAX_DRAFT

PassSeconds = Callable[[int], float]
"""v(n): seconds of a target pass over n tokens."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A line, a target and a drafter; times are seconds."""

    round_trip_s: float
    pass_s: PassSeconds
    draft_s: float
    """For each draft token."""
    acceptance: float
    """Chance that a draft token is accepted if all before it were."""
    max_draft: int = MAX_DRAFT
    """Draft tokens in a pass, at most."""
    longest_lead: int = 64
    """Draft tokens ahead of the committed ones, at most."""

    @property
    def lead(self) -> int:
        """As `RemoteStream.lead`."""
        meanwhile = math.ceil(self.round_trip_s / self.pass_s(1))
        return min(self.longest_lead, (2 + meanwhile) * self.max_draft)

    def best_width(self, available: int) -> int:
        """Draft tokens, up to `available`, that bring a pass the most expected tokens a second."""
        best, best_rate, tokens = 0, 0.0, 0.0
        for n in range(min(available, self.max_draft) + 1):
            tokens += self.acceptance**n
            rate = tokens / self.pass_s(n + 1)
            if rate > best_rate:
                best, best_rate = n, rate
        return best


def streaming(scene: Scene) -> float:
    """Tokens a second of the target alone: the line delays the stream and slows nothing."""
    return 1 / scene.pass_s(1)


def ask_and_wait(scene: Scene, k: int) -> float:
    """Tokens a second of rounds: draft k tokens, ask, wait; in expectation."""
    tokens = sum(scene.acceptance**n for n in range(k + 1))
    return tokens / (k * scene.draft_s + scene.round_trip_s + scene.pass_s(k + 1))


def duplex(scene: Scene, *, tokens: int = 2000, seed: int = 0) -> float:
    """Tokens a second of a target that never waits, and drafts that are sent ahead of it."""
    return _Duplex(scene, tokens, random.Random(seed)).run()  # noqa: S311, this is no secret


@dataclass
class _Duplex:
    """`_right[t]`: whether the drafter, given the true text, guesses the token at t."""

    scene: Scene
    tokens: int
    rng: random.Random
    committed: int = 0
    _arriving: list[tuple[float, int, int]] = field(default_factory=list)
    """Hints on their way up: when, for which position, of which draft."""
    _news: list[tuple[float, int]] = field(default_factory=list)
    """Committed lengths on their way down."""

    def __post_init__(self) -> None:
        longest = self.tokens + self.scene.longest_lead + self.scene.max_draft + 2
        self._right = [self.rng.random() < self.scene.acceptance for _ in range(longest)]
        self._free_at = 0.0  # when the drafter may begin its next token
        self._known = 0  # committed length, as the client knows it
        self._front = 0  # position that it drafts next
        self._draft = 0
        self._wrong_at: dict[int, int] = {}  # of each draft: its first wrong token
        self._chains: dict[int, int] = {}  # position → the draft that its newest hint belongs to

    def run(self) -> float:
        now, scene = 0.0, self.scene
        while self.committed < self.tokens:
            self._draft_until(now)
            while self._arriving and self._arriving[0][0] <= now:
                _, position, draft = heapq.heappop(self._arriving)
                self._chains[position] = draft
            n = scene.best_width(self._available())
            now += scene.pass_s(n + 1)
            right = 0
            while right < n and self._right[self.committed + right]:
                right += 1
            self.committed += right + 1
            heapq.heappush(self._news, (now + scene.round_trip_s / 2, self.committed))
        return self.committed / now

    def _available(self) -> int:
        """Hints of one draft that continue the committed text: none where it was wrong before."""
        draft, n = self._chains.get(self.committed), 0
        if draft is None or self._wrong_at.get(draft, self.committed) < self.committed:
            return 0
        while self._chains.get(self.committed + n) == draft:
            n += 1
        return n

    def _draft_until(self, now: float) -> None:
        """What the client does up to `now`: it hears of commits between two draft tokens."""
        scene = self.scene
        while self._free_at <= now:
            self._hear(self._free_at)
            if self._front - self._known >= scene.lead:
                if not self._news or self._news[0][0] > now:
                    return
                self._free_at = max(self._free_at, self._news[0][0])
                continue
            self._free_at += scene.draft_s
            if not self._right[self._front]:
                self._wrong_at.setdefault(self._draft, self._front)
            arrives_at = self._free_at + scene.round_trip_s / 2
            heapq.heappush(self._arriving, (arrives_at, self._front, self._draft))
            self._front += 1

    def _hear(self, at: float) -> None:
        while self._news and self._news[0][0] <= at:
            _, self._known = heapq.heappop(self._news)
        void = self._wrong_at.get(self._draft, self._known) < self._known
        if void or self._front < self._known:
            self._front, self._draft = self._known, self._draft + 1
