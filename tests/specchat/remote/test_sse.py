import pytest

from specchat.remote.sse import EventReader

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


def test_events_byte_by_byte_are_the_same() -> None:
    reader = EventReader()
    found = [event for i in range(len(STREAM)) for event in reader.feed(STREAM[i : i + 1])]
    assert found + reader.feed(b"\n") == EXPECTED


def test_an_event_without_end_is_refused() -> None:
    reader = EventReader()
    reader.feed(b"x" * 4_000_000)
    with pytest.raises(ValueError, match="without end"):
        reader.feed(b"x" * 400_000)
