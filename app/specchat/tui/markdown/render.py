"""One closed segment of markdown as blocks. What the parser would swallow is shown as it came."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from textual.content import Content

from specchat.tui.markdown.blocks import EMPTY, Block, Paragraph, Rule, Table
from specchat.tui.markdown.code import code_block
from specchat.tui.markdown.inline import inline_content

_HEADINGS = {"h1": "bold underline $text-primary", "h2": "bold $text-primary"}
_HEADING = "bold"
_MARK = "$text-accent"
_QUOTE = Content.styled("▎ ", _MARK)
_BULLETS = ("•", "◦", "▪")

# A longer paragraph, list item or table is no prose, and would hold up the screen.
_PROSE_MAX = 40_000
_FENCES = ("```", "~~~")

_ENTITY = re.compile(r"&(?:#\w+|\w+);")
_BRACKETS = frozenset("|>[]()!<:\\\"'")
"""What tables, quotes, links and escapes are made of."""


def render(source: str, *, loose: bool) -> list[Block]:
    """The blocks of `source`, which is printable; an empty row above the first if it is `loose`."""
    above = EMPTY if loose else None
    if len(source) <= _PROSE_MAX or source.lstrip(" ").startswith(_FENCES):
        tokens = _PARSER.parse(source)
        blocks = _Layout(source).document(SyntaxTreeNode(tokens), above)
        if _shows(blocks, source, tokens):
            return blocks
    return [Paragraph(Content(source), above=above)]


def _parser() -> MarkdownIt:
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    # Link definitions are text to us, and so is a minus or a row of equal signs below a line; TeX
    # keeps its backslashes (see `inline`), and so does a command that goes on in the next line.
    parser.disable(["reference", "lheading", "text_join"])
    parser.inline.ruler.before("escape", "goes_on", _keep_backslash)
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    return parser


def _keep_backslash(state: StateInline, silent: bool) -> bool:
    """At the end of a line it stays; the break itself is shown anyway."""
    if not state.src.startswith("\\\n", state.pos):
        return False
    if not silent:
        state.pending += "\\"
    state.pos += 1
    return True


_PARSER = _parser()


def _shows(blocks: list[Block], source: str, tokens: Sequence[Token]) -> bool:
    """Whether every character of the source is there, or was obeyed as one of `tokens`."""
    lost = Counter(_ENTITY.sub("", source))
    lost.subtract("".join(block.plain for block in blocks))
    lost.subtract("".join(_obeyed(tokens, source.split("\n"))))
    return not any(n > 0 and c not in _BRACKETS and not c.isspace() for c, n in lost.items())


def _obeyed(tokens: Iterable[Token], lines: Sequence[str]) -> Iterator[str]:
    """The marks in the source that became style and layout."""
    for token in tokens:
        match token.type:
            case "fence" | "code_inline":
                yield token.markup * 2
            case "heading_open" | "list_item_open" | "hr":
                yield token.markup
            case "em_open" | "em_close" | "strong_open" | "strong_close" | "s_open" | "s_close":
                yield token.markup
            case "table_open" if token.map:
                yield lines[token.map[0] + 1]
        yield from _obeyed(token.children or (), lines)


class _Indent:
    """What nesting puts before a block: a bullet before its first row, spaces before the others."""

    def __init__(self, first: Content = EMPTY, rest: Content = EMPTY) -> None:
        self._first = first
        self.rest = rest

    def take_first(self) -> Content:
        first, self._first = self._first, self.rest
        return first

    def nested(self, first: Content, rest: Content) -> _Indent:
        return _Indent(self.take_first() + first, self.rest + rest)


class _Layout:
    """Walks the syntax tree and lines its leaves up as blocks."""

    def __init__(self, source: str) -> None:
        self._source_lines = source.split("\n")
        self._blocks: list[Block] = []
        self._list_depth = 0

    def document(self, root: SyntaxTreeNode, above: Content | None) -> list[Block]:
        self._children(root, _Indent(), above, tight=False)
        return self._blocks

    def _children(
        self, node: SyntaxTreeNode, indent: _Indent, above: Content | None, tight: bool
    ) -> None:
        """The blocks inside `node`; only `above` the first is not for it to say."""
        for child in node.children:
            self._node(child, indent, above)
            above = None if tight else indent.rest

    def _node(self, node: SyntaxTreeNode, indent: _Indent, above: Content | None) -> None:
        match node.type:
            case "heading" | "blockquote" if _is_empty(node):
                self._mark_alone(node, indent, above)
            case "paragraph" | "heading":
                content = inline_content(node)
                if node.type == "heading":
                    content = content.stylize(_HEADINGS.get(node.tag, _HEADING))
                first = indent.take_first()
                self._blocks.append(Paragraph(content, first, indent.rest, above=above))
            case "bullet_list" | "ordered_list":
                self._list(node, indent, above)
            case "blockquote":
                self._children(node, indent.nested(_QUOTE, _QUOTE), above, tight=False)
            case "fence" | "code_block":
                first = indent.take_first()
                code = code_block(node.content, node.info.strip(), first, indent.rest, above)
                self._blocks.append(code)
            case "hr":
                self._blocks.append(Rule(indent.take_first(), above))
            case "table":
                self._table(node, indent, above)

    def _list(self, node: SyntaxTreeNode, indent: _Indent, above: Content | None) -> None:
        tight = all(
            child.hidden
            for item in node.children
            for child in item.children
            if child.type == "paragraph"
        )
        bullet = _BULLETS[self._list_depth % len(_BULLETS)]
        self._list_depth += 1
        for item in node.children:
            mark = f"{item.info}{item.markup} " if item.info else f"{bullet} "
            if _is_empty(item):
                self._mark_alone(item, indent, above)
            else:
                inner = indent.nested(Content.styled(mark, _MARK), Content(" " * len(mark)))
                self._children(item, inner, above, tight)
            above = None if tight else indent.rest
        self._list_depth -= 1

    def _mark_alone(self, node: SyntaxTreeNode, indent: _Indent, above: Content | None) -> None:
        """A mark with nothing behind it may be meant as it stands: + is an answer, too."""
        content = Content(node.info + node.markup)
        self._blocks.append(Paragraph(content, indent.take_first(), indent.rest, above=above))

    def _table(self, node: SyntaxTreeNode, indent: _Indent, above: Content | None) -> None:
        cells = [
            [inline_content(cell) for cell in line.children]
            for part in node.children
            for line in part.children
        ]
        first, last = node.map or (0, 0)
        source = "\n".join(self._source_lines[first:last])
        self._blocks.append(Table(cells, source, indent.take_first(), indent.rest, above))


def _is_empty(node: SyntaxTreeNode) -> bool:
    """Whether there is nothing in a heading, a quote or an item but its mark."""
    return all(child.type == "inline" and not child.children for child in node.children)
