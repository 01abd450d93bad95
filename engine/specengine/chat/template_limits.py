"""What a template may make and take, and its operations that could take more in a single step."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jinja2
from jinja2.filters import do_indent, do_round, make_attrgetter
from jinja2.utils import pass_environment

T = TypeVar("T")

MAX_SECONDS = 2.0
"""Of processor time that a rendering may take."""
MAX_BYTES = 256 * 2**20
"""Of all that a rendering makes."""
MAX_LENGTH = 16_000_000
"""Characters and items, those within its items included, of a value; also of the result."""
MAX_ITEMS = 100_000
"""Items of all lists and dicts within a value that is printed."""
MAX_BITS = 4096
_SHORT = 1024  # characters or items: not worth a look at the clock
_MAX_PAIRS = 10**9  # of characters that one search compares
_ITEM_BYTES, _LIST_BYTES = 64, 256  # with what the limits themselves remember


class LimitExceededError(BaseException):
    """Ends a rendering. Not an Exception, so that nothing on the way up takes it for one."""


class Limits:
    """What one rendering may still make, and until when."""

    def __init__(self) -> None:
        self._bytes = 0
        self._sizes: dict[int, tuple[int, object]] = {}
        # The clock of the wall is cheap, and never behind the one of the thread.
        self._soonest = time.monotonic() + MAX_SECONDS
        self._latest = time.thread_time() + MAX_SECONDS

    def step(self) -> bool:
        """True as long as there is time."""
        if time.monotonic() > self._soonest and time.thread_time() > self._latest:
            raise LimitExceededError(f"takes longer than {MAX_SECONDS:g} s")
        return True

    def made(self, value: T) -> T:
        """`value`, counted. A short text is not: what keeps many is, with all that it holds."""
        if isinstance(value, str):
            size = len(value)
            if size < _SHORT:
                return value
            self._bytes += sys.getsizeof(value)
        elif isinstance(value, list | tuple | dict):
            size = self._size(value)
        elif isinstance(value, int):
            bound_bits(value.bit_length())
            return value
        else:
            return value
        if size >= _SHORT:
            bound(size)
            self.step()
        if self._bytes > MAX_BYTES:
            raise LimitExceededError(f"needs more than {MAX_BYTES >> 20} MiB")
        return value

    def _size(self, value: list[Any] | tuple[Any, ...] | dict[Any, Any]) -> int:
        """Of all that is within `value`, as often as it is: nothing in a template changes it later.

        A list that holds one list twice, which holds another twice, ... takes no memory, and
        comparing it takes for ever.
        """
        if known := self._sizes.get(id(value)):
            return known[0]
        size, text = len(value), 0
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            if isinstance(item, str):
                text += len(item)
            elif isinstance(item, list | tuple | dict):
                size += self._size(item)
        self._bytes += _LIST_BYTES + _ITEM_BYTES * len(value) + text
        self._sizes[id(value)] = size + text, value
        return size + text


def bound(length: int, limit: int = MAX_LENGTH) -> None:
    if length > limit:
        raise LimitExceededError(f"makes a text or list longer than {limit}")


def bound_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise LimitExceededError(f"computes a number of more than {MAX_BITS} bits")


def _bounded_search(name: str) -> Callable[..., Any]:
    """A method that may compare every character of a text with every one of what it looks for."""

    def search(text: str, wanted: Any = None, *rest: Any) -> Any:
        if isinstance(wanted, str) and len(text) * len(wanted) > _MAX_PAIRS:
            raise LimitExceededError("searches for too long a text")
        return getattr(text, name)(wanted, *rest)

    return search


def bounded_pieces(pieces: Iterable[str]) -> Iterator[str]:
    length = 0
    for piece in pieces:
        length += len(piece)
        bound(length)
        yield piece


def concat(pieces: Iterable[str]) -> str:
    return "".join(bounded_pieces(pieces))


def text_of(value: Any) -> Any:
    """`str(value)`, for what has a bounded one: text, numbers, and lists and dicts of these."""
    if isinstance(value, str):
        return value
    _bound_items(value, printable=int | float | None | jinja2.Undefined)
    return str(value)


def _bound_items(value: Any, printable: Any = object) -> None:
    length = items = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            length += len(item)
        elif isinstance(item, list | tuple | dict):
            items += len(item)
            bound(items, MAX_ITEMS)
            pending += item if not isinstance(item, dict) else [*item.keys(), *item.values()]
        elif not isinstance(item, printable):
            raise jinja2.TemplateRuntimeError(f"a {type(item).__name__} cannot be printed")
    bound(length)


def _join_with(separator: str, items: Iterable[Any]) -> str:
    texts = list(bounded_pieces(text_of(item) for item in items))
    bound(len(separator) * len(texts))
    return separator.join(texts)


@pass_environment
def join(
    environment: jinja2.Environment,
    value: Iterable[Any],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return _join_with(text_of(d), value)


def replace(text: Any, old: str, new: str, count: int | None = None) -> str:
    text, limit = text_of(text), -1 if count is None else count
    bound(len(text) + text.count(old) * len(new))
    result: str = text.replace(old, new, limit)
    return result


def indented(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = text_of(text)
    indentation = len(width) if isinstance(width, str) else width
    bound(len(text) + (text.count("\n") + 1) * indentation)
    return do_indent(text, width, first, blank)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without HTML escapes, as templates written for Hugging Face's renderer expect."""
    bound(len(indent) if isinstance(indent, str) else (indent or 0) * 1000)
    _bound_items(value)
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return concat(encoder.iterencode(value))


def rounded(value: float, precision: int = 0, method: Any = "common") -> float:
    bound_bits(4 * abs(precision))
    return do_round(value, precision, method)


def trim(value: Any, chars: str | None = None) -> str:
    text: str = BOUNDED_METHODS["strip"](text_of(value), chars)
    return text


_SEARCHES = ("lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip")
BOUNDED_METHODS: dict[str, Callable[..., Any]] = {
    "join": _join_with,
    "replace": replace,
    **{name: _bounded_search(name) for name in _SEARCHES},
}
