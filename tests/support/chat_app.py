"""A running chat app, and what a person would see of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from textual.pilot import Pilot

from specchat.chats import ChatStore
from specchat.models.registry import Profile
from specchat.tui.app import SpecchatApp
from specchat.tui.screens.chat import ChatScreen
from specchat.tui.widgets.message import MessageView
from specchat.tui.widgets.prompt import Prompt
from specchat.tui.widgets.status_line import StatusLine
from specchat.tui.widgets.transcript import Note
from support.fake_runtime import FakeRuntime, Script


@dataclass
class Chat:
    """The app under a pilot, its fake runtime, and the store it writes to."""

    pilot: Pilot[None]
    store: ChatStore
    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    remembered: list[Profile] = field(default_factory=list)

    @property
    def app(self) -> SpecchatApp:
        assert isinstance(self.pilot.app, SpecchatApp)
        return self.pilot.app

    @property
    def screen(self) -> ChatScreen:
        screen = self.app.screen_stack[0]
        assert isinstance(screen, ChatScreen)
        return screen

    @property
    def prompt(self) -> Prompt:
        return self.screen.query_one(Prompt)

    @property
    def status(self) -> str:
        return self.screen.query_one(StatusLine).render().plain

    @property
    def messages(self) -> list[str]:
        """The messages on the screen as they are laid out."""
        return [text_of(view) for view in self.screen.query(MessageView)]

    @property
    def notes(self) -> list[str]:
        return [str(note.content) for note in self.screen.query(Note)]

    @property
    def stored(self) -> list[tuple[str, str, str]]:
        """Role, text and status of the messages in the newest chat."""
        newest = self.store.chats(limit=1)
        messages = self.store.messages(newest[0].id) if newest else []
        return [(message.role, message.text, message.status) for message in messages]

    async def say(self, text: str) -> None:
        """Types and sends, and lets what follows happen."""
        self.prompt.text = text
        await self.pilot.press("enter")
        await self.settle()

    async def press(self, *keys: str) -> None:
        """Presses them one after another, and lets what follows happen."""
        await self.pilot.press(*keys)
        await self.settle()

    async def leave(self) -> None:
        await self.pilot.press("ctrl+q")
        await self.until(lambda: not self.app.is_running)

    async def settle(self) -> None:
        for _ in range(5):
            await self.pilot.pause()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for what happens in another thread or by a timer."""
        while not condition():
            await self.pilot.pause(0.01)


def text_of(view: MessageView) -> str:
    rows = [view.render_line(y).text.rstrip() for y in range(view.size.height)]
    return "\n".join(rows)


class StartChat(Protocol):
    """Starts the app, as often as a test wants, over one store; `changes` are to its Services."""

    def __call__(
        self,
        *scripts: Script,
        runtime: FakeRuntime | None = None,
        size: tuple[int, int] = (80, 30),
        **changes: Any,
    ) -> AbstractAsyncContextManager[Chat]: ...
