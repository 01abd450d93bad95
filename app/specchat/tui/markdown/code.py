"""Code: coloured by Pygments, on a ground of its own."""

from __future__ import annotations

from pygments.token import Token  # type: ignore[import-untyped]
from textual.content import Content
from textual.highlight import HighlightTheme, highlight

from specchat.tui.markdown.blocks import Paragraph, Row

_FILL = "on $surface"
_LABEL = "$foreground-muted"
_PAD = Content(" ")

# Colouring takes a tenth of a second for so much; beyond it code is shown plain.
_LINES_MAX = 1_000
_LINE_LENGTH_MAX = 1_000


class CodeTheme(HighlightTheme):
    """Four colours: comments, strings, numbers, and the words of the language."""

    STYLES = {  # noqa: RUF012
        Token.Comment: "$foreground-muted",
        Token.Keyword: "$text-accent",
        Token.Operator.Word: "$text-accent",
        Token.Literal.Number: "$text-warning",
        Token.Keyword.Constant: "$text-warning",
        Token.Literal.String: "$text-success",
        Token.Name.Function: "$text-primary",
        Token.Name.Class: "$text-primary",
        Token.Name.Decorator: "$text-primary",
        Token.Name.Tag: "$text-primary",
        Token.Generic.Deleted: "$text-error",
        Token.Generic.Inserted: "$text-success",
        Token.Generic.Heading: "bold",
        Token.Generic.Emph: "italic",
        Token.Generic.Strong: "bold",
    }


def code_block(
    code: str, info: str, first: Content, rest: Content, above: Content | None
) -> Paragraph:
    """A fence with its language above it; every line wraps rather than being cut."""
    content = _coloured(code.rstrip("\n"), info)
    if info:
        content = Content.assemble((info, _LABEL), "\n", content)
    return Paragraph(content, first + _PAD, rest + _PAD, _FILL, above)


def code_rows(code: str, width: int) -> list[Row]:
    """Lines of a fence that is still open."""
    return Paragraph(Content(code), _PAD, _PAD, _FILL).rows(width)


def _coloured(code: str, info: str) -> Content:
    language, _, _ = info.partition(" ")
    lines = code.split("\n")
    if not language or len(lines) > _LINES_MAX or len(max(lines, key=len)) > _LINE_LENGTH_MAX:
        return Content(code)
    return highlight(code, language=language, theme=CodeTheme)
