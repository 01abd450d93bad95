from hypothesis import given
from hypothesis import strategies as st

from specengine.chat.stop import StopFilter

small = st.text("ab", max_size=12)


def run(pieces: list[bytes], stops: list[str]) -> tuple[bytes, int | None]:
    stop = StopFilter(stops)
    shown = b"".join(stop.feed(piece) for piece in pieces)
    return shown + stop.finish(), stop.cut


@given(st.lists(small, max_size=8), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_any_splitting_gives_what_cutting_the_whole_text_gives(
    pieces: list[str], stops: list[str]
) -> None:
    whole = "".join(pieces)
    # A stop string takes effect when it is complete: the match that ends first wins, and of two
    # that end together the longer one.
    ends = [(at + len(s), at) for s in stops if (at := whole.find(s)) >= 0]
    shown, cut = run([piece.encode() for piece in pieces], stops)
    assert cut == (min(ends)[1] if ends else None)
    assert shown.decode() == whole[:cut]


def test_nothing_of_a_stop_string_is_shown_while_it_is_still_incomplete() -> None:
    stop = StopFilter(["<end>"])
    assert [stop.feed(b) for b in (b"Hi <", b"en", b"d", b">tail")] == [b"Hi ", b"", b"", b""]
    assert stop.cut == 3


def test_a_near_miss_is_shown_whole() -> None:
    stop = StopFilter(["STOP"])
    assert stop.feed(b"ST") == b""
    assert stop.feed(b"AY") == b"STAY"


def test_a_self_overlapping_near_miss_still_finds_the_stop() -> None:
    assert run([b"a", b"a", b"b", b"x"], ["ab"]) == (b"a", 1)


def test_a_stop_string_cut_within_a_character_is_found() -> None:
    data = "ấm".encode()
    assert run([data[:1], data[1:2], data[2:]], ["ấ"]) == (b"", 0)


def test_an_empty_stop_string_is_ignored() -> None:
    assert run([b"abc"], [""]) == (b"abc", None)


def test_a_stop_string_that_is_no_character_meets_nothing() -> None:
    filter_ = StopFilter(["\udcff"])
    assert filter_.feed("ế ÿ".encode()) + filter_.finish() == "ế ÿ".encode()
    assert filter_.cut is None
