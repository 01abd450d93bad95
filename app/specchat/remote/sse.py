"""Server-sent events, cut into pieces anywhere (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a final \r may be half of a \r\n
_LONGEST = 1 << 22  # bytes of one event


class EventReader:
    """Bytes in, the data of whole events out. Comments and other fields are passed over."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events that `chunk` completes. Raises ValueError for one without end."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        if len(self._rest) > _LONGEST:
            raise ValueError("an event without end")
        events = []
        for line in lines:
            if line:
                self._take(line)
            elif self._data:
                events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                self._data.clear()
        return events

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
