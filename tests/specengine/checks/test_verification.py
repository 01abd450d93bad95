"""`verify` on a real pair: what it certifies, and what makes it refuse to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.checks.verification import FALSE_ALARM, Check, Plan, verify
from specengine.core.draft import Verdict
from specengine.core.errors import CancelledError
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.rules import greedy, token

pytestmark = pytest.mark.usefixtures("smollm_step")

CHECKS = ["padding", "reproducible", "near-ties", "sampling", "self-draft"]


@pytest.fixture(scope="module")
def pair(tiny_model: Path) -> Iterator[Pair]:
    """SmolLM2, which drafts for itself with another cache."""
    pair = Pair(tiny_model, tiny_model, method="model", options=LoadOptions(n_ctx=256))
    yield pair
    pair.close()


def plan(
    pair: Pair,
    text: str = "one two three one two three one two",
    *,
    max_tokens: int = 8,
    draws: int = 1500,
) -> Plan:
    prompt = tuple(pair.vocab.tokenize(text))
    return Plan((prompt,), 3, max_tokens=max_tokens, draft_lengths=(3,), draws=draws)


def by_name(checks: Iterator[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_a_sound_pair_passes_everything(pair: Pair) -> None:
    stages: list[str] = []
    checks = by_name(verify(pair, plan(pair), lambda check, *_: stages.append(check)))
    assert list(checks) == CHECKS
    assert [check for check in checks.values() if not check.passed] == []
    assert list(dict.fromkeys(stages)) == CHECKS
    figures = {name: check.figures for name, check in checks.items()}
    assert figures["padding"]["width_step"] == pair.width_step
    # One prompt, greedy and seeded, lookup and model.
    assert figures["reproducible"]["texts"] == 4
    assert figures["reproducible"]["drafted"] > 0
    assert 0 < figures["near-ties"]["tokens"] <= 16
    assert figures["near-ties"]["widest_gap"] <= 0.75
    assert [len(p) for p in figures["sampling"]["p_values"].values()] == [1, 1, 1]
    assert figures["sampling"]["limit"] * 3 == pytest.approx(FALSE_ALARM)  # in all tests together
    assert figures["self-draft"]["accepted"] == figures["self-draft"]["drafted"] > 0


class Scaled:
    """A cache whose logits are those of a model with other opinions."""

    def __init__(self, cache: Any, factor: float) -> None:
        self._cache = cache
        self._factor = factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def decode(self, *args: Any) -> Any:
        return np.float32(self._factor) * self._cache.decode(*args)


def distort(pair: Pair, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply the logits of the draft model."""
    assert pair._draft is not None
    context = pair._draft.context
    assert isinstance(context, Context)
    monkeypatch.setattr(context, "_cache", Scaled(context._cache, factor))


def test_a_greedy_rule_that_accepts_everything_is_caught(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = greedy.verify_greedy

    def credulous(draft, p):  # type: ignore[no-untyped-def]
        return real(draft, p) if not len(draft) else Verdict(len(draft), p(len(draft)).argmax())

    monkeypatch.setattr(greedy, "verify_greedy", credulous)
    distort(pair, -1, monkeypatch)
    checks = by_name(verify(pair, plan(pair, draws=50)))
    assert not checks["reproducible"].passed
    assert "differ from the target's own: model" in checks["reproducible"].detail
    assert not checks["near-ties"].passed
    assert checks["near-ties"].figures["not_maximum"] > 0


def test_corrections_drawn_from_p_are_caught(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token, "sample_residual", lambda rest, p, u: p.sample(u))
    distort(pair, 0.4, monkeypatch)
    # A prompt after which much may follow: most drafts are corrected.
    sampling = by_name(verify(pair, plan(pair, "I like")))["sampling"]
    assert not sampling.passed
    assert sampling.figures["p_values"]["token"][0] < sampling.figures["limit"]
    assert sampling.figures["p_values"]["block"][0] > sampling.figures["limit"]


def test_a_self_draft_of_no_tokens_proves_nothing(pair: Pair) -> None:
    """An answer of one token is the prompt's own: nobody drafts."""
    check = by_name(verify(pair, plan(pair, max_tokens=1, draws=50)))["self-draft"]
    assert check.figures == {"accepted": 0, "drafted": 0}
    assert not check.passed


def test_a_build_whose_rows_depend_on_their_neighbours_is_told(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair, "width_step", None)
    check = next(verify(pair, plan(pair)))
    assert not check.passed
    assert "may differ at near-ties" in check.detail


def test_it_can_be_cancelled(pair: Pair) -> None:
    def cancel(check: str, done: int, total: int) -> None:
        if check == "near-ties":
            pair.abort.set()

    with pytest.raises(CancelledError):
        list(verify(pair, plan(pair), cancel))
    pair.abort.clear()
