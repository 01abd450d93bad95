"""SmolLM2 drafting for Qwen and Gemma: real models of other vocabularies and tokenizers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specengine.chat.chat_template import Turn, encode_chat
from specengine.core.events import Finished
from specengine.files.compatibility import require_compatible
from specengine.files.gguf import read_gguf
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

QUESTION = "Write a Python function that adds two numbers. Viết bằng Python."


def assert_the_text_is_the_targets_own(pair: Pair, prompt: list[int]) -> None:
    def run(**options: Any) -> Finished:
        request = AnswerRequest(
            SamplingParams(temperature=0), max_tokens=48, reproducible=True, **options
        )
        *_, finished = pair.answer(prompt, request)
        assert isinstance(finished, Finished)
        assert finished.notices == ()
        return finished

    plain, drafted = run(drafting=False), run(draft_length=4)
    assert drafted.tokens == plain.tokens
    assert drafted.stats.accepted > 10


@pytest.mark.parametrize("way", ["tokens", "text"])
def test_of_a_target_with_most_of_the_drafts_tokens(
    laptop_models: tuple[Path, Path], tiny_model: Path, way: str
) -> None:
    comparison = require_compatible(read_gguf(laptop_models[0]), read_gguf(tiny_model))
    assert comparison.way == "text"
    pair = Pair(
        laptop_models[0],
        tiny_model,
        method="model",
        vocabularies=replace(comparison, way=way),  # type: ignore[arg-type]
        options=LoadOptions(n_ctx=512),
    )
    try:
        prompt = encode_chat(pair.chat_template, [Turn("user", QUESTION)], pair.vocab)
        assert_the_text_is_the_targets_own(pair, prompt)
    finally:
        pair.close()


def test_of_a_target_with_another_kind_of_tokenizer(gemma_model: Path, tiny_model: Path) -> None:
    comparison = require_compatible(read_gguf(gemma_model), read_gguf(tiny_model))
    pair = Pair(
        gemma_model,
        tiny_model,
        method="model",
        vocabularies=comparison,
        options=LoadOptions(n_ctx=512),
    )
    try:
        text = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n"
        assert_the_text_is_the_targets_own(pair, pair.vocab.tokenize(text))
    finally:
        pair.close()
