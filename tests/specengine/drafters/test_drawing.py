"""How sure a drafter says that it is of each token it draws."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.core.draft import Draft
from specengine.core.tokens import Tokens
from specengine.drafters.drawing import draw
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms

PREFIX = np.array([2, 1], dtype=np.int32)
LOGITS = np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0624, 0.0001], dtype=np.float32))


class Only:
    """A grammar that takes some tokens, wherever they come."""

    def __init__(self, *tokens: int, size: int = len(LOGITS)) -> None:
        self._tokens, self._size = tokens, size

    def allowed(self, history: Tokens) -> NDArray[np.bool_]:
        return np.isin(np.arange(self._size), self._tokens)


class Always:
    """Never ends a draft."""

    def another(self) -> bool:
        return True

    def draws(self, confidence: float) -> bool:
        return True


def drafted(
    logits: NDArray[np.float32] = LOGITS, grammar: Only | None = None, **settings: Any
) -> Draft:
    """A draft of one token."""
    sampling = SamplingParams(**{"top_p": 1, "min_p": 0, "top_k": 0, "seed": 1, **settings})
    transforms = Transforms(sampling, grammar)  # type: ignore[arg-type]
    rule = make_rule(None, sampling)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return draw(lambda tokens: logits, 1, PREFIX, transforms, rule, frozenset(), Always())


def test_after_the_end_of_the_text_nothing_more_is_drafted() -> None:
    asked: list[list[int]] = []

    def row(drafted: Sequence[int]) -> NDArray[np.float32]:
        asked.append(list(drafted))
        return np.roll(LOGITS, len(drafted))  # says 0, 1, 2, …

    greedy = SamplingParams(temperature=0)
    draft = draw(row, 8, PREFIX, Transforms(greedy), make_rule(None, greedy), frozenset({2}))
    assert draft.tokens == [0, 1, 2]
    assert asked == [[], [0], [0, 1]]


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_of_the_only_token_that_the_grammar_allows_a_drafter_is_certain(temperature: float) -> None:
    draft = drafted(grammar=Only(5), temperature=temperature)
    assert (draft.tokens, draft.confidence) == ([5], [1.0])


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_of_the_only_token_that_the_logit_bias_leaves_a_drafter_is_certain(
    temperature: float,
) -> None:
    bias = dict.fromkeys(range(5), -math.inf)
    draft = drafted(logit_bias=bias, temperature=temperature)
    assert (draft.tokens, draft.confidence) == ([5], [1.0])


@pytest.mark.parametrize("truncation", [{"top_p": 0.45}, {"min_p": 0.6}])
def test_of_the_only_token_that_truncation_leaves_a_drafter_is_certain(
    truncation: dict[str, Any],
) -> None:
    draft = drafted(temperature=0.8, **truncation)
    assert (draft.tokens, draft.confidence) == ([0], [1.0])


@pytest.mark.parametrize("greedy", [{"temperature": 0}, {"temperature": 0.8, "top_k": 1}])
@pytest.mark.parametrize(
    ("settings", "token", "chance"),
    [
        ({}, 0, 0.5),
        ({"logit_bias": {2: math.log(8)}}, 2, 1 / 1.875),
        # 1 and 2 are in the prefix.
        ({"presence_penalty": math.log(2), "repeat_last_n": 8}, 0, 0.5 / 0.8125),
    ],
)
def test_of_a_greedy_pick_a_drafter_is_as_sure_as_of_what_truncation_is_given(
    settings: dict[str, Any], token: int, chance: float, greedy: dict[str, Any]
) -> None:
    draft = drafted(**settings, **greedy)
    assert draft.tokens == [token]
    assert draft.confidence == [pytest.approx(chance, rel=1e-5)]


def test_of_a_greedy_pick_among_what_the_grammar_allows_the_others_count() -> None:
    draft = drafted(grammar=Only(1, 2, 5), temperature=0)
    assert draft.tokens == [1]
    assert draft.confidence == [pytest.approx(0.25 / 0.3751, rel=1e-5)]


def test_a_pick_far_below_what_is_forbidden_overflows_nothing() -> None:
    logits = np.array([0.0, 200.0, 0.0], dtype=np.float32)
    draft = drafted(logits, Only(0, 2, size=3), temperature=0)
    assert (draft.tokens, draft.confidence) == ([0], [0.5])
