"""Text inside a block: emphasis, code, links. Nothing in it can be clicked."""

from __future__ import annotations

from markdown_it.tree import SyntaxTreeNode
from textual.content import Content

from specchat.printable import printable

_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_CODE = "$text-warning on $surface"
_ADDRESS = "$foreground-muted"

# What markdown escapes. Before anything else a backslash is TeX's, as in \(x\), and stays.
_ESCAPABLE = frozenset("*_`~#>|!\"&'+-./:<=@^")


def inline_content(node: SyntaxTreeNode) -> Content:
    """The text below `node` with its styles."""
    parts = [Content("")]
    before = ""
    for child in node.children:
        part = _content(child)
        if child.type in ("em", "strong") and _is_in_word(before, part.plain):
            part = Content(child.markup) + inline_content(child) + Content(child.markup)
        parts.append(part)
        before = part.plain or before
    return Content("").join(parts)


def _is_in_word(before: str, emphasized: str) -> bool:
    """Whether a mark of emphasis stands between letters or digits: 2*3*4 is a product. Scripts
    without spaces between their words are another matter.
    """
    around = before[-1:] + emphasized[:1]
    return len(around) == 2 and around.isascii() and around.isalnum()


def _content(node: SyntaxTreeNode) -> Content:
    match node.type:
        case "softbreak" | "hardbreak":
            return Content("\n")
        case "code_inline":
            return Content.styled(node.content, _CODE)
        case "text_special":
            kept = node.info == "escape" and node.content not in _ESCAPABLE
            return Content(node.markup if kept else printable(node.content))
        case "link":
            return _with_address(inline_content(node), str(node.attrs.get("href", "")), node)
        case "image":
            return _with_address(inline_content(node), str(node.attrs.get("src", "")), node)
        case "inline" | "strong" | "em" | "s":
            return inline_content(node).stylize(_STYLES.get(node.type, ""))
        case _:
            return Content(node.content)


def _with_address(text: Content, address: str, node: SyntaxTreeNode) -> Content:
    """The text of a link, and where it leads: a link that hides its address deceives."""
    title = node.attrs.get("title")
    address = printable(f"{address} {title}" if title else address)
    underlined = text.stylize("underline")
    if address and text.plain == address:
        return underlined
    return Content.assemble(underlined, (f" ({address})", _ADDRESS))
