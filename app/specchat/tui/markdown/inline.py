"""Text inside a block: emphasis, code, links. Nothing in it can be clicked."""

from __future__ import annotations

from markdown_it.tree import SyntaxTreeNode
from textual.content import Content

_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_CODE = "$text-warning on $surface"
_ADDRESS = "$foreground 55%"

# What markdown escapes. Before anything else a backslash is TeX's, as in \(x\), and stays.
_ESCAPABLE = frozenset("*_`~#>|!\"&'+-./:<=@^")


def inline_content(node: SyntaxTreeNode) -> Content:
    """The text below `node` with its styles."""
    return Content("").join([_content(child) for child in node.children])


def _content(node: SyntaxTreeNode) -> Content:
    match node.type:
        case "softbreak" | "hardbreak":
            return Content("\n")
        case "code_inline":
            return Content.styled(node.content, _CODE)
        case "text_special":
            kept = node.info == "escape" and node.content not in _ESCAPABLE
            return Content(node.markup if kept else node.content)
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
    address = f"{address} {title}" if title else address
    underlined = text.stylize("underline")
    if text.plain == address:
        return underlined
    return Content.assemble(underlined, (f" ({address})", _ADDRESS))
