"""Chat templates are programs that came with a model file: run with no access, within limits.

Jinja's sandbox takes care of access. Every operation that makes a value counts what it made, calls
and loops look at the clock, and the few operations whose single step could take for ever or fill
the memory are bounded before. Each rendering counts for itself: others may run beside it. Only what
chat templates use is offered; everything else (formatting with widths, for one) is left out.
"""

from __future__ import annotations

import datetime
import functools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import BuiltinMethodType
from typing import Any, NoReturn, TypeVar

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import FILTERS, do_indent, do_round, make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context, pass_environment, pass_eval_context

from specengine.core.errors import TemplateError

T = TypeVar("T")

MAX_SECONDS = 2.0
"""Of processor time that a rendering may take."""
MAX_BYTES = 256 * 2**20
"""Of all that a rendering makes."""
MAX_LENGTH = 16_000_000
"""Characters and items, those within its items included, of a value; also of the result."""
MAX_ITEMS = 100_000
"""Items of all lists and dicts within a value that is printed."""
MAX_SOURCE = 200_000
MAX_BITS = 4096
_SHORT = 1024  # characters or items
_MAX_PATTERN = 1000  # characters of a date's format, each of which may become many
_MAX_PAIRS = 10**9  # of characters that one search compares
_ITEM_BYTES, _LIST_BYTES = 64, 256  # with what the limits themselves remember

_FILTERS = """
    abs capitalize count d default dictsort e escape first float groupby int items last length list
    lower max min reverse safe sort title unique upper
""".split()  # noqa: SIM905

_MAX_TERMS = 8  # of a sum that is counted as one
_OF_LISTS = frozenset({"count", "index"})
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        """
        capitalize casefold count endswith find index isalnum isalpha isdecimal isdigit islower
        isnumeric isspace isupper join lower lstrip partition removeprefix removesuffix replace
        rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper
        """.split()  # noqa: SIM905
    ),
    dict: frozenset({"get", "items", "keys", "values"}),
    list: _OF_LISTS,
    tuple: _OF_LISTS,
    int: frozenset(),
    float: frozenset(),
    LoopContext: frozenset(
        """
        changed cycle depth depth0 first index index0 last length nextitem previtem revindex
        revindex0
        """.split()  # noqa: SIM905
    ),
}


class LimitExceededError(BaseException):
    """Ends a rendering. Not an Exception, so that nothing on the way up takes it for one."""


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
        with _one_line_errors():
            return _concat(_bounded_pieces(self._template.generate(variables)))


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except LimitExceededError as error:
        raise TemplateError(f"the chat template {error}") from error
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


class _Limits:
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
            _bound_bits(value.bit_length())
            return value
        else:
            return value
        if size >= _SHORT:
            _bound(size)
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


class _Context(Context):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._use(_Limits())

    def _use(self, limits: _Limits) -> None:
        self.limits = limits
        # As the compiled template calls them.
        self.step, self.made = limits.step, limits.made

    def derived(self, locals: dict[str, Any] | None = None) -> Context:  # noqa: A002
        context = super().derived(locals)
        assert isinstance(context, _Context)
        context._use(self.limits)
        return context


class _CodeGenerator(CodeGenerator):
    """Lets whatever makes a value count it. `context` is that of the rendering."""

    @contextmanager
    def _made(self) -> Iterator[None]:
        self.write("context.made(")
        yield
        self.write(")")

    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:  # noqa: N802
        with self._made():
            super().visit_Filter(node, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        with self._made():
            super().visit_List(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        with self._made():
            super().visit_Dict(node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        if node.ctx == "store":
            return super().visit_Tuple(node, frame)
        with self._made():
            return super().visit_Tuple(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if not isinstance(node.arg, nodes.Slice):
            return super().visit_Getitem(node, frame)
        with self._made():
            return super().visit_Getitem(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        """`a ~ b` through the environment's bounded `concat`."""
        with self._made():
            self.write("environment.concat((")
            for operand in node.nodes:
                self.write("environment.text(")
                self.visit(operand, frame)
                self.write("), ")
            self.write("))")

    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:  # noqa: N802
        with self._made():
            self._sum(node, frame, _MAX_TERMS)

    def _sum(self, node: nodes.BinExpr, frame: Frame, terms: int) -> None:
        if isinstance(node.left, nodes.Add) and terms > 2:
            self._sum(node.left, frame, terms - 1)
        else:
            self.visit(node.left, frame)
        self.write(" + ")
        self.visit(node.right, frame)

    def visit_ContextReference(self, node: nodes.ContextReference, frame: Frame) -> None:  # noqa: N802
        """Stands only where `_Sandbox._parse` put it."""
        self.write("context.step()")


class _GenerationTag(Extension):
    """`{% generation %}` marks what a model wrote, for training: here it is only its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    code_generator_class = _CodeGenerator
    context_class = _Context
    intercepted_binops = frozenset({"*", "**", "%", "//"})

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
            "round": _round,
            "string": _text,
            "tojson": _tojson,
            "trim": _trim,
        }
        for name in ("map", "reject", "rejectattr", "select", "selectattr"):
            self.filters[name] = _stepping(FILTERS[name])
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """With a look at the clock in every pass of a loop, and a filter that counts its text at
        every `{% set x %}...{% endset %}`.
        """
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            loop.body.insert(0, nodes.ExprStmt(nodes.ContextReference(), lineno=loop.lineno))
            if loop.test is not None:
                loop.test = nodes.And(nodes.ContextReference(), loop.test, lineno=loop.lineno)
        for block in tree.find_all(nodes.AssignBlock):
            text = nodes.Filter(None, "string", [], [], None, None, lineno=block.lineno)
            block.filter = block.filter or text
        tree.set_environment(self)
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """As the sandbox's, which looks at far more: this is most of what a rendering does."""
        kind = type(obj)
        if attribute in _METHODS.get(kind, ()):
            return getattr(obj, attribute)
        if kind is Namespace and attribute[0] != "_":
            try:
                return getattr(obj, attribute)
            except AttributeError:
                return self.undefined(obj=obj, name=attribute)
        if kind is dict and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        for kind, methods in _METHODS.items():
            if isinstance(obj, kind):
                return attr in methods
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """`str.format` is left to `is_safe_attribute`, which does not know it."""

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        assert isinstance(context, _Context)
        context.step()
        if isinstance(obj, BuiltinMethodType):
            owner, name = obj.__self__, obj.__name__
            if isinstance(owner, str) and name in _BOUNDED_METHODS:
                args, obj = (owner, *args), _BOUNDED_METHODS[name]
            # What Jinja hands to functions of its own.
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return context.made(obj(*args, **kwargs))
        return context.made(super().call(context, obj, *args, **kwargs))

    def call_filter(
        self,
        name: str,
        value: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        context: Context | None = None,
        eval_ctx: EvalContext | None = None,
    ) -> Any:
        """As `map` applies one to each item."""
        assert isinstance(context, _Context)
        return context.made(super().call_filter(name, value, args, kwargs, context, eval_ctx))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str) and operator == "%":
                raise jinja2.TemplateRuntimeError("formatting with % is not offered")
            if isinstance(one, str | list | tuple) and isinstance(other, int):
                _bound(len(one) * max(other, 0))
        if isinstance(left, int) and isinstance(right, int):
            size = left.bit_length()
            _bound_bits(size * abs(right) if operator == "**" else size + right.bit_length())
        assert isinstance(context, _Context)
        return context.made(super().call_binop(context, operator, left, right))


def _bound(length: int, limit: int = MAX_LENGTH) -> None:
    if length > limit:
        raise LimitExceededError(f"makes a text or list longer than {limit}")


def _bound_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise LimitExceededError(f"computes a number of more than {MAX_BITS} bits")


def _bounded_search(method: Callable[..., T]) -> Callable[..., T]:
    """Of those that may compare every character of a text with every one of what they look for."""

    def search(text: str, wanted: Any = None, *rest: Any) -> T:
        if isinstance(wanted, str) and len(text) * len(wanted) > _MAX_PAIRS:
            raise LimitExceededError("searches for too long a text")
        return method(text, wanted, *rest)

    return search


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
            _bound(items, MAX_ITEMS)
            pending += item if not isinstance(item, dict) else [*item.keys(), *item.values()]
        elif not isinstance(item, printable):
            raise jinja2.TemplateRuntimeError(f"a {type(item).__name__} cannot be printed")
    _bound(length)


@pass_eval_context
def _finalize(_: EvalContext, value: Any) -> Any:
    return value if isinstance(value, str) else _text(value)


def _stepping(each: Callable[..., T]) -> Callable[..., T]:
    """A filter that does something with each item, and looks at the clock before."""

    @pass_context
    def stepping(context: _Context, value: Any, *args: Any, **kwargs: Any) -> T:
        items = (item for item in value or () if context.step())
        return each(context, items, *args, **kwargs)

    return stepping


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
    _bound_items(value)
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return _concat(encoder.iterencode(value))


def _round(value: float, precision: int = 0, method: Any = "common") -> float:
    _bound_bits(4 * abs(precision))
    return do_round(value, precision, method)


def _trim(value: Any, chars: str | None = None) -> str:
    text: str = _BOUNDED_METHODS["strip"](_text(value), chars)
    return text


_SEARCHES = ("lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip")
_BOUNDED_METHODS: dict[str, Callable[..., Any]] = {
    "join": _join_with,
    "replace": _replace,
    **{name: _bounded_search(getattr(str, name)) for name in _SEARCHES},
}


def _raise_exception(message: object) -> NoReturn:
    raise _RefusedError(_text(message))


def _strftime_now(pattern: str) -> str:
    _bound(len(pattern), _MAX_PATTERN)
    return datetime.datetime.now().astimezone().strftime(pattern)


@functools.lru_cache(maxsize=4)
def compiled(source: str) -> ChatTemplate:
    """The template of `source`, compiled once."""
    return ChatTemplate(source)
