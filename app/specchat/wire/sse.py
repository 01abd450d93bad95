"""Server-sent events, cut into pieces anywhere (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re

from specchat.wire.errors import RemoteError

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST = 1 << 22  # bytes of one event


class EventReader:
    """Bytes in, the data of whole events out. Comments and other fields are passed over."""

    def __init__(self) -> None:
        self._line = bytearray()
        """The part of an unfinished line that has arrived."""
        self._data = bytearray()
        """The lines of an unfinished event, each with its newline."""
        self._is_first = True
        self._was_cr = False

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that `chunk` completes. Raises RemoteError for one without end."""
        if not chunk:
            return []
        if self._was_cr:
            chunk, self._was_cr = chunk.removeprefix(b"\n"), False  # the other half of a \r\n
        *ended, rest = _LINE_END.split(chunk)
        events = []
        for part in ended:
            self._line += part
            events += self._end_line()
        self._line += rest
        self._was_cr = chunk.endswith(b"\r")
        if len(self._line) + len(self._data) > _LONGEST:
            raise RemoteError("the server sends an event that does not end")
        return events

    def _end_line(self) -> list[str]:
        line = bytes(self._line)
        self._line.clear()
        if self._is_first:
            line, self._is_first = line.removeprefix(_BYTE_ORDER_MARK), False
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data += value.removeprefix(b" ") + b"\n"
        if line or not self._data:
            return []
        event = self._data[:-1].decode("utf-8", "replace")
        self._data.clear()
        return [event]
