import hashlib

from specengine.serve.hints import Hints
from specengine.stream.transcript import Transcript, next_hash


def test_the_hash_is_the_one_that_the_protocol_defines() -> None:
    expected = bytes(16)
    for token in (7, 151_935, 0):
        data = expected + token.to_bytes(4, "little")
        expected = hashlib.blake2b(data, digest_size=16).digest()
    assert Transcript([7, 151_935, 0]).hash == expected
    assert Transcript([1, 2, 3]).hash.hex() == "23780f99a49b4f2fd47926c6994b29cb"  # as in its text


def test_a_shorter_transcript_has_the_hash_of_its_own_tokens() -> None:
    transcript = Transcript([1, 2, 3, 4])
    assert transcript.hash_at(2) == Transcript([1, 2]).hash
    transcript.truncate(2)
    transcript.extend([9])
    assert transcript.hash == Transcript([1, 2, 9]).hash
    assert transcript.tokens.tolist() == [1, 2, 9]


def test_hints_are_found_where_they_continue_the_text() -> None:
    hints = Hints()
    text = Transcript([1, 2, 3])
    hints.add(text.hash, [4, 5])
    assert hints.after(text.hash, 8) == [4, 5]
    assert hints.after(text.hash, 1) == [4]
    assert hints.after(Transcript([1, 2, 9]).hash, 8) == []


def test_hints_out_of_order_late_and_repeated_join_up() -> None:
    hints = Hints()
    text = Transcript([1, 2, 3])
    after = Transcript([1, 2, 3, 4])
    hints.add(after.hash, [5, 6])
    assert hints.after(text.hash, 8) == []
    for _ in range(2):
        hints.add(Transcript([1, 2]).hash, [3, 4])  # begins before the committed text ends
    assert hints.after(text.hash, 8) == [4, 5, 6]


def test_a_newer_hint_replaces_an_older_one() -> None:
    hints = Hints()
    hints.add(Transcript([1]).hash, [2, 3])
    hints.add(Transcript([1]).hash, [4])
    assert hints.after(Transcript([1]).hash, 8) == [4]


def test_hints_that_nobody_asks_for_are_forgotten() -> None:
    hints = Hints()
    prefix_hash = bytes(16)
    for token in range(5000):
        hints.add(prefix_hash, [token])
        prefix_hash = next_hash(prefix_hash, token)
    assert hints.after(bytes(16), 1) == []
    assert len(hints.after(Transcript(range(4000)).hash, 5000)) == 1000
