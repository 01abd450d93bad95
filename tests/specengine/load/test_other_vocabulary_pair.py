"""SmolLM2 drafting for Qwen: real models whose vocabularies share 80% of the draft model's."""

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


@pytest.mark.model
@pytest.mark.parametrize("way", ["tokens", "text"])
def test_the_text_is_the_targets_own(
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
        question = Turn("user", "Write a Python function that adds two numbers. Viết bằng Python.")
        prompt = encode_chat(pair.chat_template, [question], pair.vocab)

        def run(**options: Any) -> Finished:
            events = pair.answer(
                prompt,
                AnswerRequest(
                    SamplingParams(temperature=0), max_tokens=48, reproducible=True, **options
                ),
            )
            *_, finished = events
            assert isinstance(finished, Finished)
            assert finished.notices == ()
            return finished

        plain, drafted = run(drafting=False), run(draft_length=4)
        assert drafted.tokens == plain.tokens
        assert drafted.stats.accepted > 10
    finally:
        pair.close()
