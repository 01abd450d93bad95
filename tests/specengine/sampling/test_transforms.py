"""What a distribution must be besides llama.cpp's: a pure function that names what it cannot do."""

from typing import Any

import numpy as np
import pytest

from specengine.core.errors import SamplingError
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.truncation import top_k, top_p

NO_HISTORY = np.empty(0, dtype=np.int32)
UNTRUNCATED = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)


def row(*logits: float) -> np.ndarray:
    return np.array(logits, dtype=np.float32)


def tokens(*ids: int) -> np.ndarray:
    return np.array(ids, dtype=np.int32)


def test_untruncated_probabilities_are_the_softmax() -> None:
    p = Transforms(UNTRUNCATED).distribution(np.log(row(1, 3, 4)), NO_HISTORY)
    np.testing.assert_allclose(p.probs, [0.125, 0.375, 0.5], rtol=1e-6)


def test_untruncated_distributions_share_their_ids() -> None:
    first, second = (Transforms(UNTRUNCATED).distribution(row(1, 2, 3), NO_HISTORY) for _ in "ab")
    assert first.ids is second.ids


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0}, {"repeat_penalty": 1.5, "logit_bias": {1: 2.0}}, {"top_k": 0}],
    ids=str,
)
def test_the_given_row_is_never_changed(settings: dict[str, float]) -> None:
    logits = np.random.default_rng(0).normal(0, 3, 500).astype(np.float32)
    logits.flags.writeable = False  # as a view into llama.cpp's buffer should be treated
    before = logits.copy()
    Transforms(SamplingParams.checked(**settings)).distribution(logits, tokens(1, 2, 2))
    assert (logits == before).all()


def test_temperature_0_is_the_point_mass_on_the_best_token() -> None:
    p = Transforms(SamplingParams(temperature=0)).distribution(row(1, 5, 5, 2), NO_HISTORY)
    assert (p.ids.tolist(), p.probs.tolist()) == ([1], [1.0])


def test_temperature_0_after_penalties() -> None:
    greedy = Transforms(SamplingParams(temperature=0, repeat_penalty=2))
    assert greedy.distribution(row(1, 5, 4), tokens(0)).argmax() == 1
    assert greedy.distribution(row(1, 5, 4), tokens(0, 1)).argmax() == 2


def test_penalties_look_at_the_last_tokens_only() -> None:
    transforms = Transforms(SamplingParams(temperature=0, presence_penalty=10, repeat_last_n=2))
    assert transforms.distribution(row(1, 5, 4), tokens(1, 0, 0)).argmax() == 1
    assert transforms.distribution(row(1, 5, 4), tokens(0, 1, 0)).argmax() == 2


def test_history_is_the_only_state() -> None:
    transforms = Transforms(SamplingParams(frequency_penalty=1, top_k=0))
    logits = row(1, 1.5, 2)
    before = transforms.distribution(logits, tokens(1, 2))
    transforms.distribution(logits, tokens(1, 2, 0, 0, 0))  # a draft that is then rejected
    after = transforms.distribution(logits, tokens(1, 2))
    assert (before.probs == after.probs).all()


@pytest.mark.parametrize("n", [50, 200, 10_000])
def test_top_k_keeps_the_k_largest_and_among_equals_the_lowest_ids(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(50):
        logits = rng.integers(0, 30, n).astype(np.float32)  # many ties
        k = int(rng.integers(1, 60))
        expected = np.sort(np.lexsort((np.arange(n), -logits))[:k])
        assert top_k(logits, k).tolist() == expected.tolist()


def test_top_k_of_masked_logits() -> None:
    logits = np.full(5000, -np.inf, dtype=np.float32)
    logits[[3, 4000]] = 1, 2
    assert {3, 4000} <= set(top_k(logits, 40).tolist())


def test_top_p_of_a_flat_row_keeps_the_lowest_ids() -> None:
    assert top_p(np.zeros(1000, dtype=np.float32), 0.25).tolist() == list(range(250))


def test_top_p_keeps_no_token_beyond_those_whose_mass_is_exactly_p() -> None:
    assert top_p(np.zeros(4, dtype=np.float32), 0.5).tolist() == [0, 1]


def test_a_nan_is_named_with_its_token() -> None:
    with pytest.raises(SamplingError, match="the logit of token 2 is nan"):
        Transforms(SamplingParams()).distribution(row(1, 2, np.nan, 0), NO_HISTORY)


def test_an_infinite_logit_is_named_with_its_token() -> None:
    with pytest.raises(SamplingError, match="the logit of token 1 is inf"):
        Transforms(SamplingParams()).distribution(row(1, np.inf, 0), NO_HISTORY)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "extreme",
    [
        {"temperature": 5e-324, "min_p": 0},
        {"temperature": 1e308},
        {"repeat_penalty": 1e6},
        {"repeat_penalty": 1e-6},
        {"frequency_penalty": 1e6, "presence_penalty": 1e6},
        {"frequency_penalty": -1e6, "presence_penalty": -1e6},
        {"logit_bias": {0: 1e6, 1: -1e6}},
    ],
    ids=str,
)
def test_settings_at_their_limits_overflow_nothing(extreme: dict[str, Any]) -> None:
    params = SamplingParams(**{"top_k": 0, "top_p": 1, **extreme})
    probs = Transforms(params).distribution(row(30, -30, 1), tokens(0, 1, 1, 1)).probs
    assert np.isfinite(probs).all()
    assert probs.sum() == pytest.approx(1)


def test_a_row_that_the_bias_masks_whole_is_an_error() -> None:
    params = SamplingParams(logit_bias={0: float("-inf"), 1: float("-inf")})
    with pytest.raises(
        SamplingError, match="no token is left to draw: logit_bias masks every token"
    ):
        Transforms(params).distribution(row(1, 2), NO_HISTORY)


def test_a_bias_on_a_token_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(
        SamplingError, match="logit_bias names token 9, but the vocabulary's last token is 2"
    ):
        Transforms(SamplingParams(logit_bias={9: 1.0})).distribution(row(1, 2, 3), NO_HISTORY)
