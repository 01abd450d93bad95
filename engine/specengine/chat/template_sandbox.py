"""Chat templates are programs that came with a model file: run with no access, within limits.

Jinja's sandbox takes care of access. Every operation that makes a value counts what it made, calls
and loops look at the clock, and the few operations whose single step could take for ever or fill
the memory are bounded before. Each rendering counts for itself: others may run beside it. Only what
chat templates use is offered; everything else (formatting with widths, for one) is left out.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import BuiltinMethodType
from typing import Any, NoReturn, TypeVar

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import FILTERS
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context, pass_eval_context

from specengine.chat.template_limits import (
    BOUNDED_METHODS,
    LimitExceededError,
    Limits,
    bound,
    bound_bits,
    bounded_pieces,
    concat,
    indented,
    join,
    replace,
    rounded,
    text_of,
    tojson,
    trim,
)
from specengine.core.errors import TemplateError

T = TypeVar("T")

MAX_SOURCE = 200_000
_MAX_PATTERN = 1000  # characters of a date's format, each of which may become many
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
            return concat(bounded_pieces(self._template.generate(variables)))


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


class _Context(Context):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._use(Limits())

    def _use(self, limits: Limits) -> None:
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
        self.concat = concat  # type: ignore[method-assign]
        self.text = text_of
        self.filters = {name: FILTERS[name] for name in _FILTERS} | {
            "indent": indented,
            "join": join,
            "replace": replace,
            "round": rounded,
            "string": text_of,
            "tojson": tojson,
            "trim": trim,
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
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str) and (bounded := BOUNDED_METHODS.get(obj.__name__)):
            return context.made(super().call(context, bounded, owner, *args, **kwargs))
        if isinstance(obj, BuiltinMethodType):
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
                bound(len(one) * max(other, 0))
        if isinstance(left, int) and isinstance(right, int):
            size = left.bit_length()
            bound_bits(size * abs(right) if operator == "**" else size + right.bit_length())
        assert isinstance(context, _Context)
        return context.made(super().call_binop(context, operator, left, right))


@pass_eval_context
def _finalize(_: EvalContext, value: Any) -> Any:
    return value if isinstance(value, str) else text_of(value)


def _stepping(each: Callable[..., T]) -> Callable[..., T]:
    """A filter that does something with each item, and looks at the clock before."""

    @pass_context
    def stepping(context: _Context, value: Any, *args: Any, **kwargs: Any) -> T:
        items = (item for item in value or () if context.step())
        return each(context, items, *args, **kwargs)

    return stepping


def _raise_exception(message: object) -> NoReturn:
    raise _RefusedError(text_of(message))


def _strftime_now(pattern: str) -> str:
    bound(len(pattern), _MAX_PATTERN)
    return datetime.datetime.now().astimezone().strftime(pattern)


@functools.lru_cache(maxsize=4)
def compiled(source: str) -> ChatTemplate:
    """The template of `source`, compiled once."""
    return ChatTemplate(source)
