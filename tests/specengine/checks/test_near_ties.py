from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.checks.near_ties import NEAR_TIE, NearTies, OtherChoice, teacher_force
from support.fakes import FakeKVCache, greedy_continuation, markov

V = 8
MODEL = markov(V, seed=7)
PROMPT = [1, 2, 3]


def context(width_step: int = 1) -> tuple[Context, FakeKVCache]:
    cache = FakeKVCache(MODEL, V)
    return Context(cache, width_step=width_step), cache


def test_the_targets_own_text_has_no_other_choices() -> None:
    text = greedy_continuation(MODEL, PROMPT, 20)
    found = teacher_force(context()[0], PROMPT, text)
    assert found == NearTies(20, ())
    assert found.are_all


def test_every_later_token_is_checked_too() -> None:
    text = greedy_continuation(MODEL, PROMPT, 20)
    others = {}
    for index in (3, 15):
        row = MODEL([*PROMPT, *text[:index]])
        text[index] = int(row.argsort()[-2])
        others[index] = float(np.sort(row)[-1] - np.sort(row)[-2])
        text[index + 1 :] = greedy_continuation(MODEL, [*PROMPT, *text[: index + 1]], 19 - index)
    found = teacher_force(context()[0], PROMPT, text)
    assert {other.index: pytest.approx(other.gap) for other in found.others} == others
    assert all(other.token == text[other.index] != other.best for other in found.others)
    assert found.widest_gap == pytest.approx(max(others.values()))


@pytest.mark.parametrize(("gap", "near"), [(NEAR_TIE, True), (NEAR_TIE + 0.01, False)])
def test_a_near_tie_has_a_bound(gap: float, near: bool) -> None:
    assert NearTies(5, (OtherChoice(2, 1, 0, gap),)).are_all is near


def test_the_text_goes_through_passes_of_one_token() -> None:
    tested, cache = context(width_step=2)
    teacher_force(tested, PROMPT, [1, 1, 1])
    assert cache.widths == [3, 1, 1]


def test_equal_logits_are_no_other_choice() -> None:
    def tie(tokens: Sequence[int]) -> np.ndarray:
        return np.zeros(V, dtype=np.float32)

    found = teacher_force(Context(FakeKVCache(tie, V)), PROMPT, [5])
    assert found.others == ()


def test_texts_that_were_chosen_by_another_score() -> None:
    def score(row: np.ndarray, position: int) -> np.ndarray:
        return -row.astype(np.float64) * (1 + position % 2)

    text: list[int] = []
    for _ in range(10):
        text.append(int(MODEL([*PROMPT, *text]).argmin()))
    assert teacher_force(context()[0], PROMPT, text, score=score).others == ()
    text[4] = (text[4] + 1) % V
    assert teacher_force(context()[0], PROMPT, text[:5], score=score).others[0].index == 4
