"""One closed segment of markdown as blocks. What the parser would swallow is shown as it came."""

from __future__ import annotations

import html

from markdown_it import MarkdownIt
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


def render(source: str, *, loose: bool) -> list[Block]:
    """The blocks of `source`, which is printable; an empty row above the first if it is `loose`."""
    above = EMPTY if loose else None
    if len(source) <= _PROSE_MAX or source.lstrip(" ").startswith(_FENCES):
        blocks = _Layout(source).document(SyntaxTreeNode(_PARSER.parse(source)), above)
        if _shows(blocks, source):
            return blocks
    return [Paragraph(Content(source), above=above)]


def _parser() -> MarkdownIt:
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    # Link definitions are text to us, and TeX keeps its backslashes (see `inline`).
    parser.disable(["reference", "text_join"])
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    return parser


_PARSER = _parser()


def _shows(blocks: list[Block], source: str) -> bool:
    """Whether every letter and digit of the source is there, in order."""
    shown = iter("".join(block.plain for block in blocks))
    return all(letter in shown for letter in html.unescape(source) if letter.isalnum())


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
            inner = indent.nested(Content.styled(mark, _MARK), Content(" " * len(mark)))
            self._children(item, inner, above, tight)
            above = None if tight else indent.rest
        self._list_depth -= 1

    def _table(self, node: SyntaxTreeNode, indent: _Indent, above: Content | None) -> None:
        cells = [
            [inline_content(cell) for cell in line.children]
            for part in node.children
            for line in part.children
        ]
        first, last = node.map or (0, 0)
        source = "\n".join(self._source_lines[first:last])
        self._blocks.append(Table(cells, source, indent.take_first(), indent.rest, above))
