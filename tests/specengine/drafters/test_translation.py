import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.drafters.translation import SharedTokens, Translation, tokenize_part
from support.piece_vocab import PieceVocab

BYTES = [bytes([byte]) for byte in range(256)]
# "đường" is 64 75 c6 b0 c6 a1 … in parts that end within characters.
TARGET = PieceVocab(
    [*BYTES, b" the", b" cat", b"def", b"ing", "đ".encode(), b"\xc6\xb0\xc6", b"\xa1ng", b"\n\n"],
    ["<end>", "<user>", "<own>"],
    eos="<end>",
)
DRAFT = PieceVocab(
    [*reversed(BYTES), b" the", b" c", b"at", "ươ".encode(), b"ng", b"\n\n"],
    ["<user>", "<s>", "</s>"],
    bos="<s>",
    eos="</s>",
)
SHARED = SharedTokens(TARGET, DRAFT)

texts = st.lists(st.integers(0, TARGET.size - 1), max_size=12)


def tokens(ids: list[int]) -> np.ndarray:
    return np.array(ids, dtype=np.int32)


def ids(*pieces: bytes | str) -> list[int]:
    found: dict[bytes, int] = {TARGET.piece(t): t for t in range(TARGET.size)}
    return [TARGET.control[p] if isinstance(p, str) else found[p] for p in pieces]


def translated(text: list[int]) -> list[int]:
    encoded: list[int] = Translation(TARGET, DRAFT, SHARED).follow(tokens(text)).tolist()
    return encoded


def read(text: list[int]) -> bytes:
    return DRAFT.text(translated(text))


def test_tokens_of_equal_bytes_or_equal_control_text_are_shared() -> None:
    pairs = dict(zip(SHARED.target_ids.tolist(), SHARED.draft_ids.tolist(), strict=True))
    assert pairs.keys() == {*range(256), *ids(b" the", b"\n\n", "<user>", "<end>")}
    assert all(TARGET.piece(t) == DRAFT.piece(d) for t, d in pairs.items())
    assert pairs[TARGET.control["<user>"]] == DRAFT.control["<user>"]
    assert pairs[TARGET.control["<end>"]] == DRAFT.control["</s>"]  # both end a text
    assert SHARED.to_draft(TARGET.control["<own>"]) is None
    assert sorted(pairs) == SHARED.target_ids.tolist()


def test_of_a_byte_and_a_letter_that_look_alike_the_letter_is_shared() -> None:
    twice = PieceVocab([b"a", b"b", b"a"])
    assert SharedTokens(twice, PieceVocab([b"a"])).target_ids.tolist() == [2]


@given(texts)
def test_the_draft_model_reads_the_same_bytes(text: list[int]) -> None:
    ordinary = [t for t in text if TARGET.piece(t)]
    assert read(ordinary).decode(errors="replace") == TARGET.text(ordinary).decode(errors="replace")


parts = st.sampled_from(
    ids(b"a", "đ".encode(), b"\xc4", b"\x91", b"\xc6\xb0\xc6", b"\xa1ng", "<own>")
)


@given(st.lists(st.tuples(st.integers(0, 12), st.lists(parts, max_size=4)), max_size=8))
def test_after_any_edits_inside_characters_too_it_equals_a_translation_made_anew(
    edits: list[tuple[int, list[int]]],
) -> None:
    translation = Translation(TARGET, DRAFT, SHARED)
    text: list[int] = []
    for kept, added in edits:
        text = [*text[:kept], *added]
        assert translation.follow(tokens(text)).tolist() == translated(text)


@given(texts, texts)
def test_what_comes_later_changes_nothing_before(text: list[int], more: list[int]) -> None:
    text = [*text, *ids(b" the")]  # ends with a whole character
    assert translated([*text, *more])[: len(translated(text))] == translated(text)


def test_it_begins_as_the_draft_model_wants() -> None:
    assert translated([]) == [DRAFT.control["<s>"]]


def test_a_character_in_parts_is_encoded_when_it_is_whole() -> None:
    start = len(translated([]))
    word = ids("đ".encode(), b"\xc6\xb0\xc6", b"\xa1ng")
    unfinished = translated(word[:2])[start:]
    assert DRAFT.text(unfinished) == "đ".encode() + b"\xc6\xb0\xc6"
    whole = translated(word)[start:]
    assert [DRAFT.piece(t) for t in whole[2:]] == ["ươ".encode(), b"ng"]


def test_a_control_token_that_the_draft_model_lacks_is_read_as_its_text() -> None:
    assert read(ids(b"a", "<own>", b"b")) == b"a<own>b"
    assert translated(ids("<user>"))[1:] == [DRAFT.control["<user>"]]


@pytest.mark.parametrize("text", [" cat", "cat", "\ncat", " ", "  cat", ""])
def test_a_part_of_a_text_gets_no_second_space(text: str) -> None:
    vocab = PieceVocab([*BYTES, b" cat"], spaced=True)
    encoded = vocab.text(tokenize_part(vocab, text)).decode()
    # A word in the middle of a line gets a space: such tokenizers know no other way.
    assert encoded == (" cat" if text == "cat" else text) or text == " "
    plain = PieceVocab([*BYTES, b" cat"])
    assert plain.text(tokenize_part(plain, text)).decode() == text
