"""Costs that were measured on a busy machine do not silence drafting: scripted machine and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from specengine.cache.costs import PassCosts
from specengine.control.controller import AdaptiveDraftLength
from specengine.control.hindsight import GUESSED
from specengine.core.drafter import Offer

# Seconds of a pass by its width: llama.cpp's kernels and our own, Qwen2.5-Coder 1.5B, AVX-512.
DEAR = {1: 0.0295, 2: 0.047, 4: 0.074, 5: 0.085, 8: 0.124, 9: 0.130, 17: 0.25}
FLAT = {1: 0.0377, 2: 0.039, 4: 0.0411, 5: 0.044, 8: 0.0509, 9: 0.060, 17: 0.10}
MACHINES = {"dear": DEAR, "flat": FLAT}


@dataclass
class Answer:
    """One that is copied from the prompt: of nine in ten tokens the draft is accepted."""

    machine: Mapping[int, float]
    costs: PassCosts
    slow: float = 1.0
    """How much longer than on a quiet machine passes over more than one token take now."""
    seconds: float = 0.0
    tokens: int = 0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def __post_init__(self) -> None:
        self.look = 0

        def look_at(width: int) -> None:
            self.look = width

        self.controller = AdaptiveDraftLength(self.costs.seconds, longest=16, look_at=look_at)

    def speed(self, tokens: int, offered: float = 1.0) -> float:
        """Tokens a second of the next `tokens`; a draft is on offer for so many of the rounds."""
        begun, first = self.seconds, self.tokens
        while self.tokens < first + tokens:
            self._round(Offer("copy", 16, 0.75) if self.rng.random() < offered else None)
        return (self.tokens - first) / (self.seconds - begun)

    def _round(self, offer: Offer | None) -> None:
        k = self.controller.choose([offer], 100).length
        accepted = self._accepted(k)
        if offer is not None and k:
            self.controller.observe(offer, k, accepted)
        elif offer is not None:
            self.controller.learn(offer, GUESSED, self._accepted(GUESSED))
        width, self.look = max(k + 1, self.look), 0
        true = PassCosts(self.machine).seconds(width) * (self.slow if width > 1 else 1)
        self.costs.observe(width, true)
        self.seconds += true
        self.tokens += accepted + 1

    def _accepted(self, k: int) -> int:
        accepted = 0
        while accepted < k and self.rng.random() < 0.9:
            accepted += 1
        return accepted


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("times", "tokens"), [(1.8, 100), (4.0, 150), (8.0, 400)])
def test_costs_of_a_busy_moment_are_forgotten(machine: str, times: float, tokens: int) -> None:
    true = MACHINES[machine]
    stored = {width: s * (times if width > 1 else 1) for width, s in true.items()}
    answer = Answer(true, PassCosts(stored))
    answer.speed(tokens)
    assert answer.speed(4000) > 0.93 * Answer(true, PassCosts(true)).speed(4000)


def test_a_machine_that_is_busy_quiet_and_busy_again_is_followed() -> None:
    answer = Answer(DEAR, PassCosts(DEAR), slow=3.0)
    alone = 1 / DEAR[1]
    assert answer.speed(400) > 0.9 * alone
    answer.slow = 1.0
    answer.speed(100)
    assert answer.speed(4000) > 0.93 * Answer(DEAR, PassCosts(DEAR)).speed(4000)
    answer.slow = 3.0
    assert answer.speed(400) > 0.85 * alone, "up to six passes of what was gained may be lost"
    assert answer.speed(400) > 0.95 * alone


@pytest.mark.parametrize("machine", MACHINES)
def test_looking_again_takes_at_most_two_percent_of_the_time(machine: str) -> None:
    answer = Answer(MACHINES[machine], PassCosts(MACHINES[machine]))
    assert answer.speed(4000, offered=0.0) > 0.98 / MACHINES[machine][1]
