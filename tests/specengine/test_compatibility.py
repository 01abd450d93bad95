"""Which vocabularies may work together, and what is said about those that may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf import TokenType

from specengine.compatibility import compare_vocabularies, require_compatible
from specengine.errors import VocabMismatchError
from specengine.gguf import GGUF, read_gguf
from support.gguf_files import WORDS, write_gguf


@pytest.fixture
def model(tmp_path: Path) -> Any:
    def write(name: str, **changes: Any) -> GGUF:
        return read_gguf(write_gguf(tmp_path / f"{name}.gguf", **changes))

    return write


def test_equal_vocabularies(model: Any) -> None:
    comparison = compare_vocabularies(model("target"), model("draft"))
    assert (comparison.verdict, comparison.n_shared) == ("equal", len(WORDS))
    assert comparison.notices == ()


@pytest.mark.parametrize("longer", ["target", "draft"])
def test_a_padded_tail_is_allowed_and_never_drafted(model: Any, longer: str) -> None:
    padded = [*WORDS, "[PAD62]", "[PAD63]"]
    sizes = {"target": WORDS, "draft": WORDS, longer: padded}
    comparison = compare_vocabularies(*(model(name, tokens=sizes[name]) for name in sizes))
    assert (comparison.verdict, comparison.n_shared) == ("padded", len(WORDS))
    assert "ids from 62 on are never drafted" in comparison.notices[0]


def test_the_same_size_with_one_other_token_is_refused_at_that_token(model: Any) -> None:
    tokens = [*WORDS[:40], "other", *WORDS[41:]]
    target, draft = model("target"), model("draft", tokens=tokens)
    comparison = compare_vocabularies(target, draft)
    assert comparison.verdict == "different"
    assert comparison.difference is not None
    assert comparison.difference.token == 40
    assert (comparison.difference.target, comparison.difference.draft) == ("word38", "other")
    with pytest.raises(VocabMismatchError, match=r"id 40 is 'word38' in target.*'other' in draft"):
        require_compatible(target, draft)


def test_other_names_for_ids_that_nobody_uses_are_no_difference(model: Any) -> None:
    types = [TokenType.CONTROL] * 2 + [1] * (len(WORDS) - 4) + [TokenType.UNUSED] * 2
    target = model("target", tokens=[*WORDS[:-2], "[PAD60]", "[PAD61]"], types=types)
    draft = model("draft", tokens=[*WORDS[:-2], "<extra0>", "<extra1>"], types=types)
    assert compare_vocabularies(target, draft).verdict == "equal"
    used = model("used", tokens=[*WORDS[:-2], "<extra0>", "<extra1>"])
    assert compare_vocabularies(target, used).verdict == "different"


def test_special_ids_and_bos_rules_are_stated(model: Any) -> None:
    target = model("target", eos=1, add_bos=True)
    comparison = compare_vocabularies(target, model("draft", eos=0, add_bos=False))
    assert comparison.verdict == "equal"
    assert comparison.notices == (
        "EOS is id 1 in the target, 0 in the draft",
        "add_bos is True in the target, False in the draft",
    )


def test_tokenizers_of_another_kind_are_refused(model: Any) -> None:
    comparison = compare_vocabularies(model("target"), model("draft", tokenizer="llama"))
    assert comparison.verdict == "different"
    assert "'gpt2', the draft's 'llama'" in str(comparison.cause)


def test_a_file_without_vocabulary_is_named(model: Any) -> None:
    target, draft = model("target"), model("draft")
    without = {key: a for key, a in draft.arrays.items() if key != "tokenizer.ggml.tokens"}
    empty = GGUF(draft.path, draft.file_size, draft.metadata, without, draft.tensors)
    assert "draft.gguf carries no vocabulary" in str(compare_vocabularies(target, empty).cause)


def test_real_pairs(tiny_model: Path, laptop_models: tuple[Path, Path]) -> None:
    target, draft = (read_gguf(path) for path in laptop_models)
    assert compare_vocabularies(target, draft).verdict == "equal"
    tiny = compare_vocabularies(target, read_gguf(tiny_model))
    assert tiny.cause is not None
    assert "id 0 is '!' in qwen2.5-coder-1.5b.gguf and '<|endoftext|>'" in tiny.cause
