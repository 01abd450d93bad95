"""The chat: what was said, where to type, and what the models are doing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from specchat.errors import SpecchatError
from specchat.models.registry import Profile
from specchat.tui.answering import Answering
from specchat.tui.background import Background, Beginning
from specchat.tui.conversation import Conversation
from specchat.tui.export import save_text
from specchat.tui.leaving import Leaving
from specchat.tui.open_chat import OpenChat
from specchat.tui.screens.chats import ChatsDialog
from specchat.tui.screens.first_run import DEMONSTRATION, FirstRunDialog
from specchat.tui.screens.inspector import InspectorScreen, Reply
from specchat.tui.screens.profiles import ProfilesDialog
from specchat.tui.services import Services
from specchat.tui.verifier import Verifier
from specchat.tui.versions import Versions
from specchat.tui.widgets.chat_title import ChatTitle
from specchat.tui.widgets.message import MessageView
from specchat.tui.widgets.prompt import Prompt
from specchat.tui.widgets.queue import Queue
from specchat.tui.widgets.status_line import StatusLine
from specchat.tui.widgets.transcript import Destination, NoteKind, Transcript
from specengine.core.errors import SpecEngineError


class ChatScreen(Screen[None]):
    """What the keys do, and what stands where; everything slow runs in workers beside it."""

    DEFAULT_CSS = """
    ChatScreen {
        background: $background;
        &.-short ChatTitle { display: none; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop, or copy", id="interrupt", priority=True),
        Binding("escape", "stop", "Stop", id="stop"),
        Binding("ctrl+n", "new_chat", "New chat", id="new_chat"),
        Binding("ctrl+o", "open_chat", "Chats", id="open_chat"),
        Binding("ctrl+t", "choose_model", "Models", id="choose_model"),
        Binding("ctrl+r", "regenerate", "Answer again", id="regenerate"),
        Binding("alt+right,ctrl+g", "other_version(1)", "Next version", id="next_version"),
        Binding("alt+left", "other_version(-1)", "Previous version", id="version_before"),
        Binding("ctrl+l", "inspect", "Look inside", id="inspect"),
        Binding("f2", "unfold_thoughts", "Show what was thought", id="unfold_thoughts"),
    ]

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._chat = OpenChat(services, self._note)
        self._versions = Versions(self, self._chat)
        self._background = Background(services.runtime, self._beginning)
        self._answering = Answering(self, services, self._chat, self._versions, self._background)
        self._verifier = Verifier(services.runtime, self._chat, self._answering)
        self.leaving = Leaving(self, services, self._chat, self._answering, self._background)

    def compose(self) -> ComposeResult:
        yield ChatTitle()
        yield Transcript()
        yield Queue()
        yield Prompt()
        yield StatusLine()

    def on_mount(self) -> None:
        self.query_one(Prompt).focus()
        if self._services.unsent:
            self.query_one(Prompt).fill(self._services.unsent)
        self._show_title()
        self._answering.show_rest()
        self.run_worker(self._background.run(), group="background")
        self.run_worker(self._verifier.run(), group="verify")
        # After the first paint: loading imports llama.cpp.
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._open_store()
        if self._services.profile is not None:
            self._answering.load(self._services.profile)
        else:
            self.app.push_screen(FirstRunDialog(self._services), self._first_choice)

    # Models

    def _first_choice(self, profile: Profile | None) -> None:
        if profile is None:
            self._answering.load(self._services.registry.profile(DEMONSTRATION))
        else:
            self._choose(profile)

    def _choose(self, profile: Profile | None) -> None:
        """The person picked `profile`, or none."""
        loaded = self._answering.engine.asked
        if profile is not None and self._services.adjusted(profile) != loaded:
            self._answering.load(profile, remember=True)

    def action_choose_model(self) -> None:
        dialog = ProfilesDialog(self._services, self._answering.engine.asked)
        self.app.push_screen(dialog, self._choose)

    # Questions and answers

    @on(Prompt.Changed)
    def _typed(self) -> None:
        self._background.changed()

    def _beginning(self) -> Beginning | None:
        """What the next prompt will begin with; None while the engine has something else to do."""
        profile, conversation = self._answering.idle_profile, self._chat.conversation
        if profile is None:
            return None
        try:
            options = self._services.options(profile)
        except (SpecchatError, SpecEngineError):  # told when a question is asked
            return None
        return Beginning(
            conversation.turns(profile.target, profile.system),
            self.query_one(Prompt).message,
            replace(options, chat_id=conversation.chat_id),
        )

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        self._answering.ask(event.text)

    @on(Prompt.PreviousRequested)
    def _edit_previous(self) -> None:
        """Puts the last question into the prompt, to be asked differently."""
        question = self._chat.conversation.last("user")
        if question is not None and not self._answering.is_answering:
            prompt = self.query_one(Prompt)
            prompt.editing = question
            prompt.fill(question.text)

    def action_stop(self) -> None:
        self._answering.stop()

    async def action_interrupt(self) -> None:
        """Ctrl+C: ends the answer, or copies what is selected, or leaves at the second press."""
        selected = self.query_one(Prompt).selected_text or self.get_selected_text()
        if self._answering.engine.is_busy:
            self._answering.stop()
        elif selected:
            self.app.copy_to_clipboard(selected)
        elif self.leaving.is_meant():
            await self.app.run_action("quit")

    def action_unfold_thoughts(self) -> None:
        for view in self.query(MessageView):
            view.unfold_thought()

    def action_regenerate(self) -> None:
        self._answering.ask_again()

    @work(group="switch", exclusive=True)
    async def action_other_version(self, step: int) -> None:
        """Goes to another version of the last message that has one, and to what follows there."""
        if self._answering.is_answering:
            self.notify("Other versions can be shown once this answer has ended: Esc stops it.")
            return
        try:
            if await self._versions.go(step):
                await self._show(self._chat.conversation)
        except SpecchatError as error:
            self.notify(str(error), severity="error")

    async def action_verify_now(self) -> None:
        if not self._verifier.has_work:
            self.notify("There is nothing to verify now.")
        elif not await self._verifier.look():
            self.notify("The target cannot be reached now; it is asked again by itself.")

    def action_inspect(self) -> None:
        """Opens the rounds of the answers that were made in this session."""
        entries = self._chat.conversation.entries
        replies = [Reply(e.text, e.rounds, e.stats or {}) for e in entries if e.rounds]
        if replies:
            self.app.push_screen(InspectorScreen(replies))
        else:
            self.notify("Only answers of this session can be looked into, and there is none yet.")

    def action_copy_answer(self) -> None:
        if answer := self._chat.conversation.last("assistant"):
            self.app.copy_to_clipboard(answer.text)
            self.notify("Copied, if the terminal allows it. Ctrl+P can save it to a file instead.")

    @work(group="export")
    async def action_save_answer(self) -> None:
        if answer := self._chat.conversation.last("assistant"):
            try:
                path = await asyncio.to_thread(save_text, answer.text)
            except OSError as error:
                self.notify(f"The answer cannot be written here: {error}", severity="error")
            else:
                self.notify(f"Saved as {path}")

    # Chats

    @work(group="store")
    async def _open_store(self) -> None:
        """Opens the store and shows the last chat, unless the person was faster."""
        try:
            last = await self._chat.open_store()
        except SpecchatError as error:
            self._note(f"Chats are not saved: {error}", "error")
            return
        self.run_worker(self._chat.keep_saving(), group="save")
        self._chat.changed()
        if last is not None and not self._chat.conversation.entries:
            await self._show(last)

    def action_new_chat(self) -> None:
        self._switch(None)

    @work(group="open", exclusive=True)
    async def action_open_chat(self) -> None:
        await self._chat.save()  # opens another store where the file of this one is gone
        if self._chat.store is not None:
            self.app.push_screen(ChatsDialog(self._chat.store, self._forget), self._chosen_chat)

    def _chosen_chat(self, chat_id: int | None) -> None:
        if chat_id is not None:
            self._switch(chat_id)

    def _forget(self, chat_id: int) -> None:
        """A chat is about to be deleted; if it is this one, nothing more of it is saved."""
        if chat_id == self._chat.conversation.chat_id:
            self._chat.conversation = Conversation()
            self._switch(None)

    @work(group="switch", exclusive=True)
    async def _switch(self, chat_id: int | None) -> None:
        """Another chat, or a new one. This one stays if it cannot be saved."""
        if self._answering.is_answering:
            self._answering.stop()
            await self._answering.ended()
        if not await self._chat.save():
            self.notify("This chat could not be saved, so it stays open.", severity="error")
            return
        try:
            conversation = await self._chat.read(chat_id)
        except SpecchatError as error:
            self.notify(str(error), severity="error")
            return
        self.run_worker(self._background.keep(self._beginning()), group="keep")
        await self._show(conversation)

    async def _show(self, conversation: Conversation) -> None:
        self._chat.conversation = conversation
        self._answering.forget_question()
        self.query_one(Prompt).editing = None
        self.query_one(StatusLine).stats = None
        self._show_title()
        await self.query_one(Transcript).show(conversation.entries)
        self._versions.show()
        self._background.changed()

    # Commands

    def commands(self) -> Iterable[SystemCommand]:
        """What the palette offers here."""
        yield SystemCommand("New chat", "Start an empty chat (Ctrl+N)", self.action_new_chat)
        yield SystemCommand("Chats", "Open, find or delete one (Ctrl+O)", self.action_open_chat)
        yield SystemCommand("Models", "Choose the models (Ctrl+T)", self.action_choose_model)
        yield SystemCommand(
            "Answer again", "Replace the last answer by another (Ctrl+R)", self.action_regenerate
        )
        yield SystemCommand(
            "Other version",
            "Of the last message that has several (Alt+Right, Ctrl+G)",
            partial(self.action_other_version, 1),
        )
        yield SystemCommand(
            "Verify", "Have the target check the rest of the last answer", self.action_verify_now
        )
        yield SystemCommand(
            "Look inside", "How each round of an answer went (Ctrl+L)", self.action_inspect
        )
        yield SystemCommand(
            "Copy the last answer", "To the clipboard (OSC 52)", self.action_copy_answer
        )
        yield SystemCommand(
            "Save the last answer", "To a file in this folder", self.action_save_answer
        )

    # What is shown

    def _note(self, text: str, kind: NoteKind = "info") -> None:
        self.query_one(Transcript).note(text, kind)

    def _show_title(self) -> None:
        self.query_one(ChatTitle).show(self._chat.conversation)

    def action_scroll_transcript(self, where: Destination) -> None:
        self.query_one(Transcript).scroll_by_key(where)
