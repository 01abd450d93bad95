"""Which vocabularies may work together, and what is said about those that may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf import TokenType

from specengine.core.errors import ModelFileError, VocabMismatchError
from specengine.files.compatibility import compare, compare_vocabularies, require_compatible
from specengine.files.gguf import GGUF, read_gguf
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
def test_case_11_a_padded_tail_is_allowed_and_never_drafted(model: Any, longer: str) -> None:
    padded = [*WORDS, "[PAD62]", "[PAD63]"]
    sizes = {"target": WORDS, "draft": WORDS, longer: padded}
    comparison = compare_vocabularies(*(model(name, tokens=sizes[name]) for name in sizes))
    assert (comparison.verdict, comparison.n_shared) == ("padded", len(WORDS))
    assert "ids from 62 on are never drafted" in comparison.notices[0]


def test_case_11_the_same_size_with_one_other_token_differs_at_that_token(model: Any) -> None:
    tokens = [*WORDS[:40], "other", *WORDS[41:]]
    target, draft = model("target"), model("draft", tokens=tokens)
    comparison = compare_vocabularies(target, draft)
    assert comparison.verdict == "different"
    assert comparison.difference is not None
    assert comparison.difference.token == 40
    assert (comparison.difference.target, comparison.difference.draft) == ("word38", "other")
    assert comparison.cause == "id 40 is 'word38' in target.gguf and 'other' in draft.gguf"


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
        "EOS is token 1 in the target, 0 in the draft model",
        "add_bos is True in the target, False in the draft model",
    )


@pytest.mark.parametrize(
    ("n_other", "way"), [(0, "tokens"), (3, "tokens"), (4, "text"), (60, "text")]
)
def test_different_vocabularies_meet_by_tokens_if_they_share_enough(
    model: Any, n_other: int, way: str
) -> None:
    words = [f"word{n}" for n in range(60 - n_other)] + [f"other{n}" for n in range(n_other)]
    draft = model("draft", tokens=["<s>", "</s>", *reversed(words)])
    comparison = require_compatible(model("target"), draft)
    assert (comparison.verdict, comparison.way) == ("different", way)
    assert comparison.overlap == pytest.approx(1 - n_other / 62)


def test_tokens_are_compared_by_their_bytes_whatever_the_tokenizer(model: Any) -> None:
    # The same 5 tokens as byte-level BPE and as SentencePiece spell them.
    letters = ["<s>", "</s>", "ĠÄĳi", "Ċ", "ã"]
    pieces = ["</s>", "<s>", "▁đi", "<0x0A>", "<0xE3>"]
    target, draft = (
        model("target", tokens=letters),
        model("draft", tokens=pieces, tokenizer="llama"),
    )
    comparison = compare_vocabularies(target, draft)
    assert (comparison.way, comparison.overlap) == ("tokens", 1.0)
    assert "id 0 is '<s>'" in str(comparison.cause)


def test_a_file_without_vocabulary_is_named(model: Any) -> None:
    target, draft = model("target"), model("draft")
    without = {key: a for key, a in draft.arrays.items() if key != "tokenizer.ggml.tokens"}
    empty = GGUF(draft.path, draft.file_size, draft.metadata, without, draft.tensors)
    assert compare_vocabularies(target, empty).way == "none"
    with pytest.raises(VocabMismatchError, match=r"draft\.gguf has no vocabulary"):
        require_compatible(target, empty)


def test_real_pairs(tiny_model: Path, laptop_models: tuple[Path, Path]) -> None:
    target, draft = (read_gguf(path) for path in laptop_models)
    assert compare_vocabularies(target, draft).verdict == "equal"
    tiny = compare_vocabularies(target, read_gguf(tiny_model))
    assert tiny.cause is not None
    assert "id 0 is '!' in qwen2.5-coder-1.5b.gguf and '<|endoftext|>'" in tiny.cause
    assert tiny.overlap == pytest.approx(39237 / 49152)


def test_a_mask_token_is_the_files_own_or_the_one_that_is_given(model: Any) -> None:
    target, draft = model("target"), model("draft")
    named = model("named", extra={"tokenizer.ggml.mask_token_id": 7})
    wrong = model("wrong", extra={"tokenizer.ggml.mask_token_id": len(WORDS)})
    found = [compare(target, file).mask_token for file in (draft, named, wrong)]
    assert found == [None, 7, None]
    assert [compare(target, file, 9).mask_token for file in (draft, named)] == [9, 9]
    with pytest.raises(ModelFileError, match=r"mask token 62 of named.gguf is not in its voc.* 62"):
        compare(target, named, len(WORDS))


def test_drafts_that_travel_as_text_are_made_token_by_token(model: Any) -> None:
    other = model("other", tokens=[*WORDS[:10], *"abcdefghi"])
    comparison = compare(model("target"), other, 7)
    assert (comparison.way, comparison.mask_token) == ("text", None)
