"""Earlier chats: newest first, found again by any word in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList

from specchat.chats import ChatStore, ChatSummary
from specchat.errors import SpecchatError
from specchat.tui.screens.dialog import ListDialog, choice


class ChatsDialog(ListDialog[int]):
    """Returns the id of the chosen chat. A chat is deleted by pressing Delete twice."""

    title_text: ClassVar[str] = "Chats"
    hint_text: ClassVar[str] = "Enter opens · Del deletes · Esc closes"

    DEFAULT_CSS = """
    ChatsDialog Input, ChatsDialog Input:focus {
        height: 1;
        margin: 0 0 1 0;
        padding: 0 1;
        border: none;
        background: $surface;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move('cursor_up')", "Up", priority=True),
        Binding("down", "move('cursor_down')", "Down", priority=True),
        Binding("delete", "delete", "Delete", priority=True),
    ]

    def __init__(self, store: ChatStore, on_delete: Callable[[int], None]) -> None:
        """`on_delete` is called before a chat is deleted: nothing may write to it any more."""
        super().__init__()
        self._store = store
        self._on_delete = on_delete
        self._doomed: str | None = None
        """The chat that the next press of Delete deletes."""

    def compose_above(self) -> ComposeResult:
        yield Input(placeholder="Search in all chats")

    def on_mount(self) -> None:
        self._find("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._find(event.value)

    @work(group="find", exclusive=True)
    async def _find(self, query: str) -> None:
        try:
            self.set_choices(await asyncio.to_thread(_chats, self._store, query.strip()))
        except SpecchatError as error:
            self.notify(str(error), severity="error")

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.query_one(OptionList).action_select()

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id != self._doomed:
            self._doom(None)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        if event.option_id is not None:
            self.dismiss(int(event.option_id))

    async def action_move(self, action: str) -> None:
        await self.app.run_action(action, self.query_one(OptionList))

    def action_delete(self) -> None:
        field = self.query_one(Input)
        if field.cursor_position < len(field.value):
            field.action_delete_right()
            return
        option = self.query_one(OptionList).highlighted_option
        if option is None or option.id is None:
            return
        if option.id == self._doomed:
            self._delete(int(option.id))
        else:
            self._doom(option.id)

    def _doom(self, chat: str | None) -> None:
        self._doomed = chat
        hint = "Del again deletes this chat for good" if chat else self.hint_text
        self.query_one("#box").border_subtitle = hint

    @work
    async def _delete(self, chat_id: int) -> None:
        self._doom(None)
        self._on_delete(chat_id)
        try:
            await asyncio.to_thread(self._store.delete_chat, chat_id)
        except SpecchatError as error:
            self.notify(str(error), severity="error")
        self._find(self.query_one(Input).value)


def _chats(store: ChatStore, query: str) -> list[tuple[str, Content]]:
    """The chats to choose from, each once; with a query those that hold its words."""
    if not query:
        return [
            (str(chat.id), choice(chat.title or "Untitled", _when(chat))) for chat in store.chats()
        ]
    hits = {str(hit.chat_id): hit for hit in reversed(store.search(query))}
    return [
        (chat_id, choice(hit.title or "Untitled", hit.excerpt))
        for chat_id, hit in reversed(hits.items())
    ]


def _when(chat: ChatSummary) -> str:
    changed = chat.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{changed} · {chat.message_count} messages · {chat.profile}"
