import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.core.tokens import TokenBuffer, as_tokens, common_prefix

token_lists = st.lists(st.integers(0, 3), max_size=40)


@given(token_lists, st.lists(token_lists, max_size=5))
def test_a_buffer_holds_what_was_put_in(first: list[int], more: list[list[int]]) -> None:
    buffer = TokenBuffer(first)
    expected = list(first)
    for tokens in more:
        buffer.extend(tokens)
        expected += tokens
    assert buffer.view().tolist() == expected
    assert len(buffer) == len(expected)


def test_growing_past_the_first_allocation_keeps_everything() -> None:
    buffer = TokenBuffer()
    for i in range(1000):
        buffer.append(i)
    assert buffer.view().tolist() == list(range(1000))


def test_truncating_to_more_than_is_there_is_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens to 3"):
        TokenBuffer([1, 2]).truncate(3)


@given(token_lists, token_lists)
def test_common_prefix_is_the_longest(a: list[int], b: list[int]) -> None:
    n = common_prefix(as_tokens(a), as_tokens(b))
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


def test_int32_arrays_are_not_copied() -> None:
    tokens = np.array([1, 2, 3], dtype=np.int32)
    assert as_tokens(tokens) is tokens
