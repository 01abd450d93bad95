"""Cases 8 and 10: penalties and seeds under speculation, on scripted models."""

from typing import Any

import numpy as np
import pytest

from specengine.sampling import SamplingParams
from specengine.sampling.penalties import penalise
from support.fakes import markov
from support.rig import Rig

PROMPT = [1, 2, 3, 1]
TARGET, DRAFTER = markov(8, seed=7), markov(8, seed=8)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("seed", [None, 3], ids=["greedy", "coupled"])
@pytest.mark.parametrize(
    "penalty",
    [
        {"repeat_penalty": 1.8},
        {"frequency_penalty": 0.9},
        {"presence_penalty": 2.0},
        {"repeat_penalty": 1.3, "frequency_penalty": 0.5, "repeat_last_n": 4},
        {"logit_bias": {2: 3.0, 5: float("-inf")}},
    ],
    ids=str,
)
def test_case_8_every_penalty_gives_the_text_of_plain_decoding(
    penalty: dict[str, Any], seed: int | None, k: int
) -> None:
    sampling = SamplingParams(temperature=0 if seed is None else 1, seed=seed, **penalty)
    plain = Rig(TARGET, sampling=sampling).run(PROMPT, 0, max_tokens=60)
    assert plain.tokens != Rig(TARGET).run(PROMPT, 0, max_tokens=60).tokens
    for draft in (TARGET, DRAFTER):
        drafted = Rig(TARGET, draft, sampling=sampling).run(PROMPT, k, max_tokens=60)
        assert drafted.tokens == plain.tokens


@pytest.mark.parametrize("k", [1, 5])
def test_case_8_committed_tokens_are_counted_once_and_rejected_ones_never(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, list[int]] = {}

    def spy(row: np.ndarray, history: np.ndarray, params: SamplingParams) -> None:
        seen[len(history)] = history.tolist()  # the last word about a position is what counts
        penalise(row, history, params)

    monkeypatch.setattr("specengine.sampling.transforms.penalise", spy)
    sampling = SamplingParams(temperature=0, repeat_penalty=1.5)
    rig = Rig(TARGET, DRAFTER, sampling=sampling)
    answer = rig.run(PROMPT, k, max_tokens=40)
    assert answer.stats.corrected > 0
    committed = [*PROMPT, *answer.tokens]
    for length in range(len(PROMPT), len(committed)):
        assert seen[length] == committed[:length]


@pytest.mark.parametrize("rule", ["token", "block", "coupled"])
def test_case_10_the_same_seed_gives_the_same_text_and_another_seed_another(rule: str) -> None:
    def text(seed: int) -> tuple[int, ...]:
        sampling = SamplingParams(temperature=1, seed=seed)
        return Rig(TARGET, DRAFTER, sampling=sampling, rule=rule).run(PROMPT, max_tokens=40).tokens

    assert text(1) == text(1)
    assert text(1) != text(2)
