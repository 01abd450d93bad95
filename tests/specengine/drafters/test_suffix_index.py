import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.drafters.suffix_index import LONGEST_MATCH, NOTHING, SuffixIndex

texts = st.lists(st.integers(0, 2), max_size=60)


def tokens(text: list[int]) -> np.ndarray:
    return np.array(text, dtype=np.int32)


def padded(text: list[int]) -> np.ndarray:
    return tokens([NOTHING] * LONGEST_MATCH + text)[-LONGEST_MATCH:]


def brute_force(text: list[int], end: list[int]) -> tuple[int, list[int]]:
    """The longest match by trying everything, and where it is, newest first."""

    def length(position: int) -> int:
        n = 0
        while n < min(position, len(end), LONGEST_MATCH) and text[position - n - 1] == end[-n - 1]:
            n += 1
        return n

    lengths = [length(position) for position in range(len(text))]
    longest = max(lengths, default=0)
    where = [p for p, n in enumerate(lengths) if n == longest > 0]
    return longest, where[::-1]


def found(index: SuffixIndex, end: list[int]) -> tuple[int, list[int]]:
    matches = index.longest_matches(padded(end))
    return (0, []) if matches is None else (matches.length, matches.positions)


@given(texts, texts)
def test_it_finds_every_longest_match(text: list[int], end: list[int]) -> None:
    assert found(SuffixIndex(text), end) == brute_force(text, end)


@given(texts)
def test_the_text_itself_is_no_match_of_its_end(text: list[int]) -> None:
    assert found(SuffixIndex(text), text) == brute_force(text, text)


@given(st.lists(texts, min_size=1, max_size=6), texts)
def test_after_any_edits_it_equals_an_index_made_anew(
    edits: list[list[int]], end: list[int]
) -> None:
    index = SuffixIndex()
    for text in edits:
        index.follow(tokens(text))
        fresh = SuffixIndex(text)
        assert index.text.tolist() == text
        for one, other in zip(index._chains, fresh._chains, strict=True):
            assert (one._newest == other._newest).all()
            assert (one._earlier.view() == other._earlier.view()).all()
        assert found(index, end) == found(fresh, end)


@pytest.mark.parametrize("step", [1, 7, 500])
def test_it_is_the_same_however_the_text_arrived(step: int) -> None:
    text = np.random.default_rng(3).integers(0, 50, 500).astype(np.int32)
    index = SuffixIndex()
    for end in range(step, 500 + step, step):
        index.follow(text[:end])
    end = text[100:116].tolist()
    assert found(index, end) == (LONGEST_MATCH, [116])


def test_a_longer_match_is_found_among_many_short_ones() -> None:
    wanted = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    noise = [1000, 0] * 5000  # 5000 newer occurrences of the last token
    assert found(SuffixIndex([*wanted, 77, *noise]), wanted) == (10, [10])


def test_of_a_frequent_token_only_the_newest_places_are_looked_at() -> None:
    length, positions = found(SuffixIndex([1, 2] * 1000), [3, 1])
    assert length == 1
    assert positions == list(range(1999, 1999 - 2 * len(positions), -2))
    assert len(positions) < 100


def test_equal_hashes_of_different_tokens_are_no_match() -> None:
    # Half a million tokens share 65,536 hashes.
    index = SuffixIndex(np.arange(500_000, dtype=np.int32))
    assert all(found(index, [token]) == (0, []) for token in range(500_000, 500_100))


def test_a_token_takes_16_bytes() -> None:
    index = SuffixIndex(np.zeros(100_000, dtype=np.int32))
    arrays = [index._padded._data, *(chain._earlier._data for chain in index._chains)]
    assert sum(array.nbytes for array in arrays) <= 2 * 16 * 100_100  # arrays double as they grow


@pytest.mark.parametrize("n_vocab", [3, 50, 150_000])
def test_one_token_at_a_time_gives_the_index_of_the_whole_text(n_vocab: int) -> None:
    text = np.random.default_rng(n_vocab).integers(0, n_vocab, 200).astype(np.int32)
    grown = SuffixIndex()
    for n in range(1, len(text) + 1):
        grown.follow(text[:n])
    whole = SuffixIndex(text)
    for one, other in zip(grown._chains, whole._chains, strict=True):
        assert np.array_equal(one._newest, other._newest)
        assert np.array_equal(one._earlier.view(), other._earlier.view())
