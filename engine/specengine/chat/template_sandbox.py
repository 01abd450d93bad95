"""Chat templates are programs that came with a model file: run with no access, within limits.

Jinja's sandbox takes care of access. Limits have two halves: clock and memory are looked at between
any two steps of the template, and the few operations whose single step could take for ever or fill
the memory are bounded. Only what chat templates use is offered; everything else (formatting with
widths, for one) is left out rather than bounded.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import FILTERS, do_indent, make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_environment, pass_eval_context

from specengine.chat.watch import LimitExceededError, watched
from specengine.core.errors import TemplateError

MAX_LENGTH = 16_000_000
"""Characters of a text, or items of a list, that one operation may make; also of the result."""
MAX_ITEMS = 100_000
"""Items of all lists and dicts within a value that is printed."""
MAX_SOURCE = 200_000
MAX_BITS = 4096

_FILTERS = """
    abs capitalize count d default dictsort e escape first float groupby int items last length list
    lower map max min reject rejectattr reverse round safe select selectattr sort title trim unique
    upper
""".split()  # noqa: SIM905

_METHODS: dict[type | tuple[type, ...], frozenset[str]] = {
    str: frozenset(
        """
        capitalize casefold count endswith find index isalnum isalpha isdecimal isdigit islower
        isnumeric isspace isupper join lower lstrip partition removeprefix removesuffix replace
        rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper
        """.split()  # noqa: SIM905
    ),
    dict: frozenset({"get", "items", "keys", "values"}),
    (list, tuple): frozenset({"count", "index"}),
    (int, float): frozenset(),
}


class _RefusedError(Exception):
    """The template called `raise_exception`."""


class ChatTemplate:
    """A compiled template. Raises TemplateError, one line, for whatever is wrong with it."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_SOURCE:
            raise TemplateError(f"the chat template is longer than {MAX_SOURCE} characters")
        # Compiling takes time in proportion to the source and runs nothing of it: see _Sandbox.
        with _one_line_errors():
            self._template = _Sandbox().from_string(source)

    def render(self, **variables: Any) -> str:
        """What the template makes of `variables`; raises TemplateError, also where it refuses."""
        with _one_line_errors(), watched("<template>"):
            return _concat(_bounded_pieces(self._template.generate(variables)))


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except LimitExceededError as error:
        raise TemplateError(f"the chat template {error}") from None
    except _RefusedError as error:
        raise TemplateError(f"the chat template refuses this: {_line(error)}") from None
    except jinja2.TemplateSyntaxError as error:
        reason = f"line {error.lineno}: {_line(error.message or '')}"
        raise TemplateError(f"the chat template is not valid: {reason}") from error
    except Exception as error:
        # The template's own code may raise anything: division by zero, too deep a recursion, ...
        raise TemplateError(f"the chat template fails: {_line(error)}") from error


def _line(error: object) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


class _CodeGenerator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        """`a ~ b` through the environment's bounded `concat`."""
        self.write("environment.concat((")
        for operand in node.nodes:
            self.write("environment.text(")
            self.visit(operand, frame)
            self.write("), ")
        self.write("))")


class _GenerationTag(Extension):
    """`{% generation %}` marks what a model wrote, for training: here it is only its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    code_generator_class = _CodeGenerator
    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _GenerationTag],
            # These two keep Jinja from computing constant expressions while it compiles.
            optimized=False,
            finalize=_finalize,
        )
        self.concat = _concat  # type: ignore[method-assign]
        self.text = _text
        self.filters = {name: FILTERS[name] for name in _FILTERS} | {
            "indent": _indent,
            "join": _join,
            "replace": _replace,
            "string": _text,
            "tojson": _tojson,
        }
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        for kind, methods in _METHODS.items():
            if isinstance(obj, kind):
                return attr in methods
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """`str.format` is left to `is_safe_attribute`, which does not know it."""

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str) and obj.__name__ in ("join", "replace"):
            bounded = _join_with if obj.__name__ == "join" else _replace
            return bounded(owner, *args, **kwargs)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str) and operator == "%":
                raise jinja2.TemplateRuntimeError("formatting with % is not offered")
            if isinstance(one, str | list | tuple) and isinstance(other, int):
                _bound(len(one) * max(other, 0))
        if isinstance(left, int) and isinstance(right, int) and operator != "%":
            size = left.bit_length()
            if (size * abs(right) if operator == "**" else size + right.bit_length()) > MAX_BITS:
                raise LimitExceededError(f"computes a number of more than {MAX_BITS} bits")
        return super().call_binop(context, operator, left, right)


def _bound(length: int, limit: int = MAX_LENGTH) -> None:
    if length > limit:
        raise LimitExceededError(f"makes a text or list longer than {limit}")


def _bounded_pieces(pieces: Iterable[str]) -> Iterator[str]:
    length = 0
    for piece in pieces:
        length += len(piece)
        _bound(length)
        yield piece


def _concat(pieces: Iterable[str]) -> str:
    return "".join(_bounded_pieces(pieces))


def _text(value: Any) -> Any:
    """`str(value)`, for what has a bounded one: text, numbers, and lists and dicts of these."""
    if isinstance(value, str):
        return value
    length = items = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            length += len(item)
        elif isinstance(item, list | tuple | dict):
            items += len(item)
            _bound(items, MAX_ITEMS)
            pending += item if not isinstance(item, dict) else [*item.keys(), *item.values()]
        elif not isinstance(item, int | float | None | jinja2.Undefined):
            raise jinja2.TemplateRuntimeError(f"a {type(item).__name__} cannot be printed")
    _bound(length)
    return str(value)


@pass_eval_context
def _finalize(_: EvalContext, value: Any) -> Any:
    return _text(value)


def _join_with(separator: str, items: Iterable[Any]) -> str:
    texts = list(_bounded_pieces(_text(item) for item in items))
    _bound(len(separator) * len(texts))
    return separator.join(texts)


@pass_environment
def _join(
    environment: jinja2.Environment,
    value: Iterable[Any],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return _join_with(_text(d), value)


def _replace(text: Any, old: str, new: str, count: int | None = None) -> str:
    text, limit = _text(text), -1 if count is None else count
    _bound(len(text) + text.count(old) * len(new))
    result: str = text.replace(old, new, limit)
    return result


def _indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = _text(text)
    indentation = len(width) if isinstance(width, str) else width
    _bound(len(text) + (text.count("\n") + 1) * indentation)
    return do_indent(text, width, first, blank)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without HTML escapes, as templates written for Hugging Face's renderer expect."""
    _bound(len(indent) if isinstance(indent, str) else (indent or 0) * 1000)
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    # iterencode is the encoder in Python: watched between its steps, unlike the one in C.
    return _concat(encoder.iterencode(value))


def _raise_exception(message: object) -> NoReturn:
    raise _RefusedError(_text(message))


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().astimezone().strftime(pattern)


@functools.lru_cache(maxsize=4)
def compiled(source: str) -> ChatTemplate:
    """The template of `source`, compiled once."""
    return ChatTemplate(source)
