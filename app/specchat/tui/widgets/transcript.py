"""The messages of a chat, newest at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from specchat.printable import printable
from specchat.tui.conversation import Entry
from specchat.tui.widgets.message import MessageView
from specchat.tui.widgets.welcome import Welcome

# How many messages are mounted at first, and each time the person reaches the top.
PAGE = 40

NoteKind = Literal["info", "error"]
Destination = Literal["page_up", "page_down", "home", "end"]


class Note(Static):
    """A line of the program's own between the messages."""

    DEFAULT_CSS = """
    Note {
        width: 1fr;
        height: auto;
        margin: 0 0 1 0;
        padding: 0 2;
        color: $foreground-muted;

        &.-error {
            color: $text-error;
            border-left: outer $error;
            padding: 0 1;
        }
    }
    """

    def __init__(self, text: str, kind: NoteKind = "info") -> None:
        super().__init__(Content(printable(text)), classes=f"-{kind}")


class Transcript(VerticalScroll, can_focus=False):
    """Stays at its end while an answer grows, until the person scrolls away.

    Only the newest messages are widgets; older ones become widgets when the person gets there.
    """

    DEFAULT_CSS = """
    Transcript {
        height: 1fr;
        padding: 1 1 0 1;
        align-vertical: bottom;

        #earlier { display: none; text-align: center; color: $foreground-muted; margin: 0 0 1 0; }
        #earlier.-some { display: block; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._earlier: list[Entry] = []
        self._fetching = False

    def compose(self) -> ComposeResult:
        yield Static(id="earlier")
        yield Welcome()

    async def show(self, entries: Sequence[Entry]) -> None:
        """Another chat, in place of what is shown."""
        self._earlier = list(entries[:-PAGE])
        async with self.batch():
            await self.query("MessageView, Note").remove()
            await self.mount(*map(MessageView, entries[-PAGE:]))
        self._count_earlier()
        self.query_one(Welcome).display = not entries
        self.anchor()
        self.call_after_refresh(self._fetch_at_top)

    def add(self, entry: Entry) -> MessageView:
        """A new message at the end, which comes into sight."""
        self.query_one(Welcome).display = False
        self._put_oldest_away()
        view = MessageView(entry)
        self.mount(view)
        self.anchor()
        return view

    def scroll_by_key(self, where: Destination) -> None:
        """Scrolls as the keys of that name do, while the prompt has the focus."""
        getattr(self, f"scroll_{where}")(animate=False)

    def note(self, text: str, kind: NoteKind = "info") -> None:
        self.mount(Note(text, kind))

    async def cut(self, entries: Sequence[Entry]) -> None:
        """Takes messages at the end off the screen, and what stands between and after them."""
        children = self.children
        first = next(view for view in self.query(MessageView) if view.entry in entries)
        await self.remove_children(children[children.index(first) :])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.is_mounted:
            self._fetch_at_top()

    def _fetch_at_top(self) -> None:
        if self.scroll_y <= 0 and self._earlier and not self._fetching:
            self._fetching = True
            self.call_later(self._fetch_earlier)

    async def _fetch_earlier(self) -> None:
        """Mounts a page of older messages above, and keeps the eye where it is."""
        page, self._earlier = self._earlier[-PAGE:], self._earlier[:-PAGE]
        height = self.virtual_size.height
        await self.mount(*map(MessageView, page), after=self.query_one(Welcome))
        self._count_earlier()
        self.call_after_refresh(self._keep_place, height)

    def _keep_place(self, height: int) -> None:
        self.scroll_to(y=self.virtual_size.height - height, animate=False, immediate=True)
        self._fetching = False
        self._fetch_at_top()

    def _put_oldest_away(self) -> None:
        """In a long sitting the oldest messages stop being widgets again."""
        views = list(self.query(MessageView))
        if len(views) > 3 * PAGE:
            self._earlier += [view.entry for view in views[:PAGE]]
            first_kept = self.children.index(views[PAGE])
            first = self.children.index(self.query_one(Welcome)) + 1
            self.remove_children(self.children[first:first_kept])
            self._count_earlier()

    def _count_earlier(self) -> None:
        label = self.query_one("#earlier", Static)
        label.update(Content(f"↑ {len(self._earlier)} earlier messages"))
        label.set_class(bool(self._earlier), "-some")
