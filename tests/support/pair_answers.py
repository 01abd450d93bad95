"""Answers of a whole pair of models, and what its target says by itself."""

from __future__ import annotations

import threading
from typing import Any

from specengine.core.events import Finished
from specengine.core.vocab import Vocab
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

GREEDY = SamplingParams(temperature=0)
QUESTION = "Name three primary colours."


def chat(pair: Pair, question: str, *before: int) -> list[int]:
    """A turn of SmolLM2's template after the text `before` it, up to where an answer begins."""
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    return [*before, *pair.vocab.tokenize(text, special=True)]


def unending(vocab: Vocab, sampling: SamplingParams = GREEDY) -> SamplingParams:
    """No end token is ever drawn: a text ends where a test says, whatever the CPU makes of it."""
    bias = sampling.logit_bias | dict.fromkeys(vocab.eog, -1e6)
    return sampling.model_copy(update={"logit_bias": bias})


def run(pair: Pair, prompt: list[int], *, notices: int = 0, **options: Any) -> Finished:
    """The end of an answer of `max_tokens` without an error; `notices`: how many come with it."""
    given: dict[str, Any] = {"sampling": GREEDY, "max_tokens": 32, "reproducible": True} | options
    given["sampling"] = unending(pair.vocab, given["sampling"])
    *_, finished = pair.answer(prompt, AnswerRequest(**given))
    assert isinstance(finished, Finished)
    assert finished.error is None
    assert len(finished.notices) == notices
    return finished


def alone(pair: Pair, prompt: list[int], **options: Any) -> tuple[int, ...]:
    """What the target says by itself after an empty cache."""
    pair.forget()
    return run(pair, prompt, drafting=False, **options).tokens


def cancelled(pair: Pair) -> Finished:
    """The end of a long answer that is cancelled while it is written."""
    timer = threading.Timer(0.3, pair.abort.set)
    timer.start()
    finished = run(pair, chat(pair, "Count to one thousand."), max_tokens=400, draft_length=4)
    timer.join()
    pair.abort.clear()
    return finished
