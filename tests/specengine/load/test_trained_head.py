"""The head that comes along for SmolLM2 predicts it: on questions that it was not trained on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.models.ensure import ensure_model
from specchat.models.registry import load_registry
from specengine.chat.chat_template import Turn, encode_chat
from specengine.core.events import Finished
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

pytestmark = pytest.mark.usefixtures("smollm_step")

QUESTIONS = (
    "Write a Python function that returns the larger of two numbers.",
    "What is a glacier?",
    "List three things to pack for a picnic.",
)


@pytest.fixture(scope="module")
def pair(tiny_model: Path) -> Iterator[Pair]:
    head = ensure_model(load_registry().model("smollm2-135m-eagle3"))
    pair = Pair(tiny_model, head, method="model", options=LoadOptions(n_ctx=512))
    yield pair
    pair.close()


def answer(pair: Pair, question: str, **options: Any) -> Finished:
    prompt = encode_chat(
        pair.chat_template, [Turn("system", ""), Turn("user", question)], pair.vocab
    )
    greedy = SamplingParams(temperature=0)
    *_, finished = pair.answer(
        prompt, AnswerRequest(greedy, max_tokens=80, reproducible=True, **options)
    )
    assert isinstance(finished, Finished)
    assert finished.error is None
    return finished


def test_two_fifths_of_the_passes_are_saved_and_no_token_changes(pair: Pair) -> None:
    tokens = rounds = 0
    for question in QUESTIONS:
        drafted = answer(pair, question, draft_length=4)
        tokens += drafted.stats.completion_tokens - 1
        rounds += drafted.stats.rounds
        pair.forget()
        assert answer(pair, question, drafting=False).tokens == drafted.tokens
    assert tokens / rounds > 1.4
