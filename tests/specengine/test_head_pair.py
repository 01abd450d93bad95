"""The engine with an EAGLE-3 head of random weights beside SmolLM2: the text is the target's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from specengine.errors import ModelFileError
from specengine.events import Finished
from specengine.llama.model import LlamaModel
from specengine.pair import LoadOptions, Pair
from specengine.rules import make_rule
from specengine.sampling import SamplingParams
from support.eagle3_heads import random_head
from support.head_files import RandomHead, write_head

GREEDY = SamplingParams(temperature=0)
OPTIONS = LoadOptions(n_ctx=512)
QUESTION = "Name three primary colours."


@pytest.fixture(scope="module")
def weights(tiny_model: Path) -> RandomHead:
    """It guesses blindly among tokens that the target often says, so that some stand."""
    with LlamaModel(tiny_model, vocab_only=True) as model:
        words = (",", " and", ".", " the", " blue")
        common = sorted({model.vocab.tokenize(word)[0] for word in words})
    head = random_head(576, 49152, n_draft_vocab=len(common))
    head.tensors["d2t"] = np.array(common, dtype=np.int64)
    return head


@pytest.fixture(scope="module")
def pair(
    tiny_model: Path, weights: RandomHead, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    path = tmp_path_factory.mktemp("head") / "head.gguf"
    write_head(path, weights, tiny_model, quantization=gguf.GGMLQuantizationType.Q8_0)
    pair = Pair(tiny_model, path, method="cascade", options=OPTIONS)
    yield pair
    pair.close()


def chat(pair: Pair, question: str, *before: int) -> list[int]:
    literal = pair.vocab.tokenize(f"<|im_start|>user\n{question}", special=True)
    end = pair.vocab.tokenize("<|im_end|>\n<|im_start|>assistant\n", special=True)
    return [*before, *literal, *end]


def run(pair: Pair, prompt: list[int], **options: Any) -> Finished:
    given = {"sampling": GREEDY, "max_tokens": 24, "reproducible": True} | options
    *_, finished = pair.answer(prompt, **given)  # type: ignore[arg-type]
    assert isinstance(finished, Finished)
    return finished


def alone(pair: Pair, prompt: list[int], **options: Any) -> tuple[int, ...]:
    """What the target says by itself after an empty cache."""
    pair.forget()
    return run(pair, prompt, drafting=False, **options).tokens


def test_two_turns_are_the_targets_own(pair: Pair) -> None:
    prompt = chat(pair, QUESTION)
    first = run(pair, prompt, draft_length=3)
    assert first.stats.drafted > first.stats.accepted > 0
    assert first.stats.by_drafter["head"].drafted == first.stats.drafted
    assert first.stats.draft_s > 0
    turn = chat(pair, "And which is the warmest?", *prompt, *first.tokens)
    second = run(pair, turn, draft_length=5)
    assert second.stats.drafted > 0
    assert first.tokens == alone(pair, prompt)
    assert second.tokens == alone(pair, turn)


def test_a_sampled_text_is_a_function_of_the_seed(pair: Pair) -> None:
    sampling = SamplingParams(temperature=0.9, seed=11)
    prompt = chat(pair, "Tell me a story.")
    drafted = run(pair, prompt, sampling=sampling, draft_length=3)
    assert drafted.stats.drafted > 0
    assert drafted.tokens == alone(pair, prompt, sampling=sampling)


def test_a_cancelled_answer_leaves_everything_in_order(pair: Pair) -> None:
    timer = threading.Timer(0.3, pair.abort.set)
    timer.start()
    cancelled = run(pair, chat(pair, "Count to one thousand."), max_tokens=400, draft_length=4)
    timer.join()
    pair.abort.clear()
    assert cancelled.reason == "cancelled"
    prompt = chat(pair, QUESTION)
    assert run(pair, prompt, draft_length=3).tokens == alone(pair, prompt)


def test_calibration_prices_the_head_for_the_controller(pair: Pair) -> None:
    pair.calibrate()
    head, target = pair.costs["head.gguf"], pair.costs[pair.files[0].name]
    assert 0 < head.seconds(1) < target.seconds(17)
    assert pair.draft_model(GREEDY, make_rule(None, GREEDY)) is not None


def load(tiny_model: Path, head: Path) -> None:
    Pair(tiny_model, head, method="model", options=OPTIONS).close()


def test_heads_of_other_models_and_broken_files_are_one_line(
    tiny_model: Path, weights: RandomHead, tmp_path: Path
) -> None:
    path = tmp_path / "head.gguf"
    write_head(path, weights, tiny_model, metadata={"target_hidden_size": 512})
    with pytest.raises(ModelFileError, match="reads hidden states of 512 numbers"):
        load(tiny_model, path)
    write_head(path, weights, tiny_model, tensors={"blk.0.attn_q.weight": None})
    with pytest.raises(ModelFileError, match=r"cannot load .*attn_q"):
        load(tiny_model, path)
    write_head(path, weights, tiny_model, tensors={"fc.weight": np.ones((576, 576))})
    with pytest.raises(ModelFileError, match=r"cannot load .*fc"):
        load(tiny_model, path)
    path.write_bytes(path.read_bytes()[:-4096])
    with pytest.raises(ModelFileError, match="truncated"):
        load(tiny_model, path)


def test_a_head_of_nan_costs_its_drafts_only(
    tiny_model: Path, weights: RandomHead, tmp_path: Path
) -> None:
    nan = np.full(weights.tensors["output_norm.weight"].shape, np.nan)
    path = tmp_path / "head.gguf"
    write_head(path, weights, tiny_model, tensors={"output_norm.weight": nan})
    pair = Pair(tiny_model, path, method="model", options=OPTIONS)
    try:
        finished = run(pair, chat(pair, QUESTION), draft_length=3, reproducible=False)
        assert finished.stats.completion_tokens == 24
        assert len(finished.notices) == 1
        assert "drafter head failed (the logit of token" in finished.notices[0]
    finally:
        pair.close()
