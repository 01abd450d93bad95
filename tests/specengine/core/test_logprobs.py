import math

import numpy as np
import pytest

from specengine.core.logprobs import token_logprobs


def test_probabilities_of_a_row() -> None:
    row = np.log(np.array([0.5, 0.125, 0.375], dtype=np.float32)) + 40
    result = token_logprobs(row, 1, 2)
    assert result.logprob == pytest.approx(math.log(0.125), abs=1e-5)
    assert [i for i, _ in result.top] == [0, 2]
    assert [p for _, p in result.top] == pytest.approx([math.log(0.5), math.log(0.375)], abs=1e-5)


def test_no_alternatives_asked_for_gives_none() -> None:
    assert token_logprobs(np.zeros(4, dtype=np.float32), 3, 0).top == ()


def test_more_alternatives_than_tokens_gives_all() -> None:
    assert len(token_logprobs(np.zeros(4, dtype=np.float32), 3, 20).top) == 4
