"""Gemma 3 270M, whose layers but every sixth see 512 tokens: texts on both sides of that window."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from specengine.core.events import Finished
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

WINDOW = 512


@pytest.fixture(scope="module")
def pairs(gemma_model: Path) -> Iterator[tuple[Pair, Pair]]:
    """One that goes on from what its cache holds, and one that is asked with an empty cache."""
    options = LoadOptions(n_ctx=1024)
    both = Pair(gemma_model, method="lookup", options=options), Pair(gemma_model, options=options)
    yield both
    for pair in both:
        pair.close()


def answer(pair: Pair, prompt: list[int], *, drafting: bool) -> Finished:
    request = AnswerRequest(
        SamplingParams(temperature=0),
        max_tokens=24,
        reproducible=True,
        drafting=drafting,
        draft_length=5 if drafting else None,
    )
    *_, finished = pair.answer(prompt, request)
    assert isinstance(finished, Finished)
    return finished


@pytest.mark.parametrize(
    ("first", "then"),
    [(700, 300), (500, 700), (700, 650), (520, 505), (900, 40)],
    ids=lambda n: f"{n} tokens",
)
def test_a_text_after_a_longer_or_shorter_one_is_that_of_an_empty_cache(
    pairs: tuple[Pair, Pair], first: int, then: int
) -> None:
    used, fresh = pairs
    if used.width_step is None:
        pytest.skip("no width of passes is stable with these kernels")
    text = "".join(f"Line {i} counts to {i * i}.\n" for i in range(100))
    tokens = used.vocab.tokenize(text)
    assert len(tokens) > 900 > WINDOW
    drafted = answer(used, tokens[:first], drafting=True).stats.drafted
    finished = answer(used, tokens[:then], drafting=True)
    assert drafted + finished.stats.drafted > 0
    fresh.forget()
    assert finished.tokens == answer(fresh, tokens[:then], drafting=False).tokens
