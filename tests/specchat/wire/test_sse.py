import re

import pytest

from specchat.wire import sse
from specchat.wire.errors import RemoteError
from specchat.wire.sse import EventReader

STREAM = (
    ": ping\r\n\r\n"
    'data: {"a":\r\ndata: 1}\r\n\r\nevent: x\nid: 3\ndata:"ế 🎉"\n\n\rdata: [DONE]\r\r'
).encode()
EXPECTED = ['{"a":\n1}', '"ế 🎉"', "[DONE]"]


def test_events_cut_at_every_byte_are_the_same() -> None:
    for cut in range(len(STREAM) + 1):
        reader = EventReader()
        found = reader.feed(STREAM[:cut]) + reader.feed(STREAM[cut:]) + reader.feed(b"\n")
        assert found == EXPECTED, f"cut at {cut}"


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        ("\ufeffdata: first\n\ndata: second\n\n", ["first", "second"]),
        ("\ufeff\ufeffdata: 1\n\ndata: 2\n\n", ["2"]),  # one mark is one, the other a name
        ("data: 1\r\rdata: 2\r\n\r\ndata: 3\n\n", ["1", "2", "3"]),
        ("data\n\ndata\ndata\n\ndata:", ["", "\n"]),
        ("data:test\n\ndata: test\n\ndata:  test\n\n", ["test", "test", " test"]),
        ("data: a\ndata\ndata: b\n:data: c\n\n", ["a\n\nb"]),
        ("data: a\nDATA: b\n data: c\ndatax: d\nretry: 5\nid\n\n", ["a"]),
        (":\n\n:::\n\nevent: x\n\n", []),
        ("data: not ended\n", []),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_the_rules_of_event_streams(stream: str, events: list[str], size: int) -> None:
    data, reader = stream.encode(), EventReader()
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    assert [event for piece in pieces for event in reader.feed(piece)] == events


def test_an_event_comes_with_the_byte_that_ends_it() -> None:
    reader = EventReader()
    assert reader.feed(b"data: now\r\r") == ["now"]


@pytest.mark.parametrize("unit", [b"x", b"data: x\n", b"data\n"])
def test_an_event_without_end_is_refused(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_LONGEST", 100_000)

    def feed() -> None:
        reader = EventReader()
        for _ in range(200):
            reader.feed(unit * 1_000)

    with pytest.raises(RemoteError, match="that does not end"):
        feed()


def test_every_byte_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0

    class Counting:
        def split(self, data: bytes) -> list[bytes]:
            nonlocal searched
            searched += len(data)
            return re.split(rb"\r\n|\n|\r", data)

    monkeypatch.setattr(sse, "_LINE_END", Counting())
    reader = EventReader()
    for _ in range(100):
        assert reader.feed(b"x" * 1000) == []
    assert searched == 100_000
