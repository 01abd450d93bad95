"""SmolLM2 drafting for itself with a mask token that means nothing to it: wrong, and lossless."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specengine.files.compatibility import compare
from specengine.files.gguf import read_gguf
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.sampling import SamplingParams
from support.pair_answers import QUESTION, alone, cancelled, chat, run

pytestmark = pytest.mark.usefixtures("smollm_step")

OPTIONS = LoadOptions(n_ctx=512)
MASK = 28  # a comma, so that some guesses stand


@pytest.fixture(scope="module")
def pair(tiny_model: Path) -> Iterator[Pair]:
    header = read_gguf(tiny_model)
    told = compare(header, header, mask_token=MASK)
    pair = Pair(tiny_model, tiny_model, method="model", vocabularies=told, options=OPTIONS)
    yield pair
    pair.close()


def test_two_turns_are_the_targets_own(pair: Pair) -> None:
    prompt = chat(pair, QUESTION)
    first = run(pair, prompt, draft_length=4)
    turn = chat(pair, "And which is the warmest?", *prompt, *first.tokens)
    second = run(pair, turn, draft_length=7)
    assert first.tokens == alone(pair, prompt)
    assert second.tokens == alone(pair, turn)
    counts = first.stats.by_drafter["parallel"]
    # The first row is the model's own next token, which the target says too.
    assert counts.rounds <= counts.accepted < counts.drafted == first.stats.drafted
    assert first.stats.accepted_per_position[1] > 0
    assert first.stats.draft_s > 0


@pytest.mark.parametrize("k", [1, 5])
def test_a_sampled_text_is_a_function_of_the_seed(pair: Pair, k: int) -> None:
    sampling = SamplingParams(temperature=0.9, seed=11, repeat_penalty=1.1)
    prompt = chat(pair, "Tell me a story.")
    drafted = run(pair, prompt, sampling=sampling, draft_length=k)
    assert drafted.stats.accepted >= drafted.stats.rounds - 1
    assert drafted.tokens == alone(pair, prompt, sampling=sampling)


def test_a_cancelled_answer_leaves_everything_in_order(pair: Pair) -> None:
    assert cancelled(pair).reason == "cancelled"
    prompt = chat(pair, QUESTION)
    assert run(pair, prompt, draft_length=3).tokens == alone(pair, prompt)
