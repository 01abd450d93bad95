"""The engine on a real model: SmolLM2-135M as target and as its own draft model."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specengine.core.errors import CancelledError, ContextFullError, ModelFileError
from specengine.core.events import Finished
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams
from support.pair_answers import unending

pytestmark = pytest.mark.usefixtures("smollm_step")

GREEDY = SamplingParams(temperature=0)
QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def pair(tiny_model: Path) -> Iterator[Pair]:
    pair = Pair(tiny_model, tiny_model, method="model", options=LoadOptions(n_ctx=1024))
    yield pair
    pair.close()


def chat(pair: Pair, question: str, *before: int) -> list[int]:
    def literal(text: str) -> list[int]:
        return pair.vocab.tokenize(text, special=True)

    start = list(before) or literal("<|im_start|>system\n<|im_end|>\n")
    return [
        *start,
        *literal("<|im_start|>user\n"),
        *pair.vocab.tokenize(question),
        *literal("<|im_end|>\n<|im_start|>assistant\n"),
    ]


def run(pair: Pair, prompt: list[int], **options: Any) -> Finished:
    """An answer of `max_tokens` tokens, 48 where a test does not say."""
    options = {"max_tokens": 48, "reproducible": True} | options
    sampling = unending(pair.vocab, options.pop("sampling", GREEDY))
    *_, finished = pair.answer(prompt, AnswerRequest(sampling, **options))
    assert isinstance(finished, Finished)
    return finished


def test_it_says_paris(pair: Pair) -> None:
    # Nothing else comes within four nats of it.
    begun = pair.vocab.tokenize("The capital of France is")
    answer = run(pair, [*chat(pair, QUESTION), *begun], max_tokens=1)
    assert answer.text == " Paris"


def test_an_end_token_stops_it(pair: Pair) -> None:
    answer = run(pair, chat(pair, QUESTION), grammar='root ::= "Paris"')
    assert (answer.text, answer.reason) == ("Paris", "stop")


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_case_1_self_draft_is_accepted_whole_and_equals_plain(pair: Pair, k: int) -> None:
    prompt = chat(pair, "Name three primary colours.")
    plain = run(pair, prompt, max_tokens=64, drafting=False)
    drafted = run(pair, prompt, max_tokens=64, draft_length=k)
    assert drafted.tokens == plain.tokens
    assert plain.stats.target_passes == 63
    assert drafted.stats.acceptance_rate == 1.0
    assert drafted.stats.target_passes == -(-63 // (k + 1))


@pytest.mark.parametrize("method", ["none", "lookup", "model", "cascade"])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_reproducible_text_does_not_depend_on_the_drafter(pair: Pair, method: str, k: int) -> None:
    prompt = chat(pair, "Repeat this twice: the cat sat on the mat, the cat sat on the hat.")
    plain = run(pair, prompt, drafting=False)
    drafted = run(pair, prompt, draft_length=k, drafter=method)
    assert drafted.tokens == plain.tokens
    assert (drafted.stats.drafted > 0) == (method != "none")
    assert (drafted.stats.draft_s > 0) == (method in ("model", "cascade"))


def test_a_pair_that_forgot_evaluates_its_prompt_again(pair: Pair) -> None:
    prompt = chat(pair, QUESTION)
    run(pair, prompt, max_tokens=1)
    assert len(pair._target.context.tokens) == len(prompt)
    pair.forget()
    assert [len(loaded.context.tokens) for loaded in pair._loaded] == [0, 0]


def test_the_next_turn_equals_a_fresh_run_and_evaluates_only_what_is_new(
    pair: Pair, tiny_model: Path
) -> None:
    first = run(pair, chat(pair, QUESTION))
    prompt = chat(pair, "And of Italy?", *chat(pair, QUESTION), *first.tokens, 2, 198)
    second = run(pair, prompt)
    fresh = Pair(tiny_model, method="none", options=LoadOptions(n_ctx=1024))
    try:
        assert run(fresh, prompt).tokens == second.tokens
    finally:
        fresh.close()


def test_case_13_cancel_in_the_prompt_and_going_on(pair: Pair) -> None:
    long_prompt = chat(pair, "word " * 900)
    short = chat(pair, QUESTION)
    expected = run(pair, short).tokens
    timer = threading.Timer(0.05, pair.abort.set)
    timer.start()
    cancelled = run(pair, long_prompt)
    timer.join()
    pair.abort.clear()
    assert cancelled.reason == "cancelled"
    assert run(pair, short).tokens == expected


def test_case_14_an_answer_that_fills_the_context(tiny_model: Path) -> None:
    pair = Pair(tiny_model, tiny_model, method="model", options=LoadOptions(n_ctx=64))
    try:
        prompt = (pair.vocab.tokenize("one two three four five six seven eight ") * 9)[:56]
        answer = run(pair, prompt, max_tokens=None, draft_length=16)
        assert answer.reason == "length"
        assert len(answer.tokens) == 8
        with pytest.raises(ContextFullError, match="no room"):
            pair.answer([1] * 64, AnswerRequest(GREEDY))
    finally:
        pair.close()


def test_case_10_logprobs_equal_those_of_the_plain_run(pair: Pair) -> None:
    prompt = chat(pair, QUESTION)
    plain = run(pair, prompt, drafting=False, logprobs=3)
    drafted = run(pair, prompt, draft_length=4, logprobs=3)
    assert len(plain.logprobs) == len(plain.tokens)
    for a, b in zip(plain.logprobs, drafted.logprobs, strict=True):
        assert a.token == b.token
        assert a.logprob == pytest.approx(b.logprob, abs=1e-3)
    assert any(abs(a.logprob) > 1e-4 for a in plain.logprobs)


def test_case_10_a_seed_repeats_a_text(pair: Pair) -> None:
    prompt = chat(pair, "Tell me a story.")
    sampling = SamplingParams(temperature=1.0, seed=7)
    texts = {run(pair, prompt, sampling=sampling, max_tokens=24).tokens for _ in range(2)}
    assert len(texts) == 1
    other = run(pair, prompt, sampling=SamplingParams(temperature=1.0, seed=8), max_tokens=24)
    assert other.tokens not in texts


@pytest.mark.parametrize("repacks", [True, False])
def test_costs_of_repacked_weights_hold_for_no_others(tiny_model: Path, repacks: bool) -> None:
    known = {tiny_model.name: {1: 0.5, 5: 0.9}}
    options = LoadOptions(n_ctx=256, use_extra_bufts=repacks, costs=known)
    with closing(Pair(tiny_model, options=options)) as pair:
        [costs] = pair.costs.values()
    assert costs.as_dict() == ({1: 0.5, 5: 0.9} if repacks else {})


def test_a_file_that_llama_cpp_refuses_is_an_error_with_its_reason(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileError, match=r"bad\.gguf"):
        Pair(bad)


def test_rows_are_views_into_llama_cpps_buffer(pair: Pair) -> None:
    rows = pair._target.context.logits(chat(pair, QUESTION), last=3)
    assert rows.shape == (3, pair.vocab.size)
    assert rows.dtype == np.float32
    assert not rows.flags.owndata


def test_a_cascade_changes_nothing(pair: Pair) -> None:
    prompt = chat(pair, "Repeat this twice: the cat sat on the mat, the cat sat on the hat.")
    plain = run(pair, prompt, max_tokens=64, drafting=False)
    cascade = run(pair, prompt, max_tokens=64, drafter="cascade")
    assert cascade.tokens == plain.tokens


def test_what_is_read_ahead_is_not_evaluated_again_and_changes_nothing(pair: Pair) -> None:
    prompt = chat(pair, "Tell me a story about " + "red and blue and green, " * 40)
    pair.forget()
    plain = run(pair, prompt, drafting=False)
    pair.forget()
    pair.read_ahead(prompt[:-8], reproducible=True)
    assert pair.context.tokens.tolist() == prompt[:-8]
    passes = pair.context.passes
    ahead = run(pair, prompt, drafting=False)
    assert ahead.tokens == plain.tokens
    assert pair.context.passes == passes + len(ahead.tokens)
    pair.read_ahead(prompt, reproducible=True)  # is held, and more
    assert pair.context.passes == passes + len(ahead.tokens)


def test_reading_ahead_stops_at_once_and_keeps_what_was_read(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = chat(pair, "one two three " * 100)
    pair.forget()
    logits = pair.context.logits

    def aborting(tokens: list[int]) -> object:
        if len(tokens) > 256:
            pair.abort.set()
        return logits(tokens)

    monkeypatch.setattr(pair.context, "logits", aborting)
    with pytest.raises(CancelledError):
        pair.read_ahead(prompt)
    pair.abort.clear()
    assert pair.context.tokens.tolist() == prompt[:256]


def test_an_answer_after_a_restored_state_is_that_after_the_live_one(
    pair: Pair, tiny_model: Path
) -> None:
    prompt = chat(pair, QUESTION)
    first = run(pair, prompt)
    question = chat(pair, "Are you sure?", *prompt, *first.tokens)
    saved = pair.context.save(question)
    assert saved is not None
    assert len(saved.tokens) >= len(prompt) + len(first.tokens) - 1
    live = run(pair, question)
    other = Pair(tiny_model, method="none", options=LoadOptions(n_ctx=1024))
    try:
        assert (other.state_key, other.width_step) == (pair.state_key, pair.width_step)
        assert other.context.restore(saved)
        passes = other.context.passes
        restored = run(other, question)
        assert restored.tokens == live.tokens
        assert other.context.passes - passes == len(restored.tokens)
    finally:
        other.close()
