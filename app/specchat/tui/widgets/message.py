"""One message on the screen, of any length: only the rows in sight are drawn."""

from __future__ import annotations

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from specchat.chats.records import Status
from specchat.printable import one_line
from specchat.tui.conversation import Entry
from specchat.tui.markdown import Document, MarkedDocument
from specchat.tui.markdown.blocks import Row
from specchat.tui.markdown.thought import Thought

_ENDINGS: dict[Status, str] = {
    "stopped": "stopped here",
    "length": "cut off at the length limit",
    "interrupted": "the program ended here",
    "failed": "failed here",
}


class MessageView(Widget):
    """An entry drawn row by row. Its text can be selected with the mouse.

    A question stands as it was typed; an answer is markdown and may grow.
    """

    DEFAULT_CSS = """
    MessageView {
        width: 1fr;
        height: auto;
        margin: 0 0 1 0;
        padding: 0 2;

        &.-user {
            padding: 0 1;
            background: $surface;
            border-left: outer $accent;
        }
        &.-versions {
            border-bottom: hkey $foreground 15%;
            border-subtitle-align: left;
            border-subtitle-color: $foreground-muted;
        }
    }
    """

    def __init__(self, entry: Entry) -> None:
        super().__init__(classes=f"-{entry.role}")
        self.entry = entry
        self._document: Document | MarkedDocument
        self._thought = Thought()
        self._thought_shown = self._above = 0  # characters; rows
        self._unfolded = False
        if entry.role == "assistant":
            self._begin()
            if entry.status != "streaming":
                self._end()
        else:
            self._document = Document.of_text(entry.text)
        self.show_place()

    def show_place(self) -> None:
        """Which of how many versions it is, where there are several."""
        number, count = self.entry.place
        self.set_class(count > 1, "-versions")
        self.border_subtitle = f"{number}/{count}"

    def show_new(self) -> None:
        """Shows what has changed of the answer since: mostly it has got longer."""
        if self.entry.unverified != self._mark:
            self._begin()
            self.refresh(layout=True)
            return
        if len(self.entry.reasoning) > self._thought_shown:
            self._show_thought()
            self.refresh(layout=True)
        if new := self.entry.text[self._shown :]:
            self._shown += len(new)
            self._document.append(new)
            self._show_thought()
            self.refresh(layout=True)

    def unfold_thought(self) -> None:
        """Shows what was thought before the answer, or hides it again."""
        self._unfolded = not self._unfolded
        self._show_thought()
        self.refresh(layout=True)

    def finish(self) -> None:
        """The answer has ended: its last lines are markdown too, and its ending is told."""
        self._begin()
        self._end()
        self.refresh(layout=True)

    def _begin(self) -> None:
        self._thought, self._thought_shown = Thought(), 0
        self._show_thought()
        text, mark = self.entry.text, self.entry.unverified
        self._document = MarkedDocument()
        self._shown, self._mark = len(text), mark
        if mark is None:
            self._document.append(text)
        else:
            self._document.append(text[: mark.char])
            self._document.mark(f"not verified from here on · {one_line(mark.writer)} wrote it")
            self._document.append(text[mark.char :])

    def _show_thought(self) -> None:
        """What is new of the thought, open until the answer begins."""
        entry, thought = self.entry, self._thought
        thought.append(entry.reasoning[self._thought_shown :])
        self._thought_shown = len(entry.reasoning)
        is_over = bool(entry.text) or entry.status != "streaming"
        thought.label = thought_label(entry, is_over=is_over) if entry.reasoning else ""
        thought.is_folded = is_over and not self._unfolded

    def _end(self) -> None:
        self._document.finish()
        if ending := _ENDINGS.get(self.entry.status):
            self._document.add_note(ending)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._above = self._thought.height(width) if width else 0
        return self._above + self._document.height(width) if width else 0

    def render_line(self, y: int) -> Strip:
        row = self._row(y)
        style = self.visual_style + _parse_style(row.fill)
        segments, x = [], 0
        for text, text_style in self._with_selection(row.content, y).render(
            style, end="", parse_style=_parse_style
        ):
            segments.append(Segment(text, (style + text_style).rich_style_with_offset(x, y)))
            x += len(text)
        return Strip(segments).extend_cell_length(self.size.width, style.rich_style)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        rows = range(self.get_content_height(self.size, self.size, self.size.width))
        text = "\n".join(self._row(y).content.plain for y in rows)
        return selection.extract(text), "\n"

    def _row(self, y: int) -> Row:
        return self._thought.row(y) if y < self._above else self._document.row(y - self._above)

    def _with_selection(self, content: Content, y: int) -> Content:
        span = self.text_selection.get_span(y) if self.text_selection else None
        if span is None:
            return content
        start, end = span
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        return content.stylize(style, start, len(content) if end < 0 else end)


def thought_label(entry: Entry, *, is_over: bool) -> str:
    """How long a thought took, or takes."""
    seconds = "" if entry.thought_s is None else f"{entry.thought_s:.0f} s"
    if is_over:
        return f"Thought for {seconds} · F2" if seconds else "Thought · F2"
    facts = [seconds, f"{entry.answer_at} tokens" if entry.answer_at else ""]
    return " ".join(["Thinking…", ", ".join(fact for fact in facts if fact)]).rstrip()


def _parse_style(style: str | Style) -> Style:
    return style if isinstance(style, Style) else Style.parse(style)
