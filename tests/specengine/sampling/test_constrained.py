"""Asking a grammar from the best token down: the same outcome, far fewer questions."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.core.errors import SamplingError
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.constrained import allowed_candidates

NO_HISTORY = np.empty(0, dtype=np.int32)


class FakeGrammar:
    """Allows what `mask` says and counts what it is asked."""

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        self.mask = mask
        self.asked = 0

    def allowed(self, history: NDArray[np.int32], ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        self.asked += len(ids)
        return self.mask[ids]


def random_settings(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "temperature": float(rng.choice([0, 0.5, 1])),
        "top_k": int(rng.choice([0, 1, 5, 40, 200])),
        "top_p": float(rng.choice([1, 0.95, 0.5, 0.999])),
        "min_p": float(rng.choice([0, 0.05, 0.3])),
        "typical_p": float(rng.choice([1, 1, 0.7])),
    }


@pytest.mark.parametrize("seed", range(300))
def test_the_outcome_is_that_of_masking_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(0, rng.choice([0.3, 2, 6]), 3000).astype(np.float32)
    if seed % 3 == 0:
        row = row.round(1)  # ties
    mask = rng.random(3000) < rng.choice([0.001, 0.02, 0.5, 0.95])
    mask[rng.integers(3000)] = True
    params = SamplingParams(**random_settings(rng))
    masked = np.where(mask, row, np.float32(-np.inf))
    expected = Transforms(params).distribution(masked, NO_HISTORY)
    p = Transforms(params, FakeGrammar(mask)).distribution(row, NO_HISTORY)
    support = expected.ids[expected.probs > 0]
    assert p.ids[p.probs > 0].tolist() == support.tolist()
    np.testing.assert_allclose(p.probs_of(support), expected.probs_of(support), rtol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [{}, {"top_p": 1}, {"min_p": 0}, {"top_k": 0}, {"top_k": 0, "top_p": 1}, {"temperature": 0}],
    ids=str,
)
def test_a_clear_favourite_is_found_with_the_first_question(settings: dict[str, Any]) -> None:
    # As within a key of a JSON schema: two tokens are allowed, and the model knows it.
    row = np.random.default_rng(0).normal(0, 1, 50_000).astype(np.float32)
    row[[7, 9]] = 20, 19
    grammar = FakeGrammar(np.isin(np.arange(50_000), [7, 9]))
    params = SamplingParams(**settings)
    ids = allowed_candidates(row, lambda ids: grammar.allowed(NO_HISTORY, ids), params)
    assert ids.tolist() == [7, 9]
    assert grammar.asked == 64


def test_a_grammar_that_no_token_fits_is_not_blamed_on_the_bias() -> None:
    row = np.zeros(100, dtype=np.float32)
    nothing = FakeGrammar(np.zeros(100, dtype=np.bool_))
    with pytest.raises(SamplingError, match=r"^the grammar allows none of this model's tokens$"):
        allowed_candidates(row, lambda ids: nothing.allowed(NO_HISTORY, ids), SamplingParams())
