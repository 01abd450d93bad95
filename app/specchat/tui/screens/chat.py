"""The chat: what was said, where to type, and what the models are doing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen

from specchat.errors import SpecchatError
from specchat.models.registry import Profile
from specchat.runtime import AnswerOptions
from specchat.storage import ChatStore
from specchat.storage.records import Status
from specchat.tui.background import Background, Beginning
from specchat.tui.conversation import Conversation, Entry
from specchat.tui.engine import Engine
from specchat.tui.export import save_text
from specchat.tui.printable import one_line
from specchat.tui.saver import Saver
from specchat.tui.screens.chats import ChatsDialog
from specchat.tui.screens.first_run import DEMONSTRATION, FirstRunDialog
from specchat.tui.screens.inspector import InspectorScreen, Reply
from specchat.tui.screens.profiles import ProfilesDialog
from specchat.tui.services import Services
from specchat.tui.verifier import Verifier
from specchat.tui.widgets.chat_title import ChatTitle
from specchat.tui.widgets.message import MessageView
from specchat.tui.widgets.prompt import Prompt
from specchat.tui.widgets.queue import Queue
from specchat.tui.widgets.status_line import StatusLine, progress_content
from specchat.tui.widgets.transcript import Destination, NoteKind, Transcript
from specengine.chat_template import Turn
from specengine.errors import SpecEngineError
from specengine.events import Chunk, Finished, FinishReason, Progress, Reviewed
from specengine.inspection import InspectedRound

_FRAMES_PER_S = 15
_PATIENCE_AT_EXIT_S = 2.0
_SECOND_PRESS_S = 2.0

_WRITING = "writing · Esc stops"
_ALONE = "no target: the draft model writes · Esc stops"

_STATUS: dict[FinishReason, Status] = {
    "stop": "done",
    "length": "length",
    "cancelled": "stopped",
    "error": "failed",
}


class ChatScreen(Screen[None]):
    """Owns the conversation; everything slow runs in workers beside it."""

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
        Binding("alt+left", "other_version(-1)", "Version before", id="version_before"),
        Binding("ctrl+l", "inspect", "Look inside", id="inspect"),
    ]

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._engine = Engine(services.runtime)
        self._conversation = Conversation()
        self._store: ChatStore | None = None
        self._saver: Saver | None = None
        self._background = Background(services.runtime, self._beginning)
        self._verifier = Verifier(
            services.runtime, lambda: self._unverified() is not None, self._verify
        )
        self._editing: Entry | None = None
        self._is_loading = False
        self._is_answering = False
        self._is_verifying = False
        self._wants_answer = False
        self._interrupted = float("-inf")

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
        self._show_rest()
        self.run_worker(self._background.run(), group="background")
        self.run_worker(self._verifier.run(), group="verify")
        # After the first paint: loading imports llama.cpp.
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._open_store()
        if self._services.profile is not None:
            self._use(self._services.profile)
        else:
            self.app.push_screen(FirstRunDialog(self._services), self._first_choice)

    # Models

    def _first_choice(self, profile: Profile | None) -> None:
        if profile is None:
            self._use(self._services.registry.profile(DEMONSTRATION))
        else:
            self._choose(profile)

    def _choose(self, profile: Profile | None) -> None:
        """The person picked `profile`, or none."""
        if profile is not None and self._services.adjusted(profile) != self._engine.profile:
            self._use(profile, remember=True)

    @work(group="load")
    async def _use(self, profile: Profile, remember: bool = False) -> None:
        """Loads `profile`, and answers what was asked meanwhile."""
        self._is_loading = True
        self._show_activity(Content(f"loading {one_line(profile.name)}"))
        try:
            self._services.options(profile)  # settings that do not fit show now, not at an answer
            loaded = await self._engine.load(self._services.adjusted(profile), self._show_progress)
            if loaded and remember:
                await asyncio.to_thread(self._services.remember, profile)
        except (SpecchatError, SpecEngineError, OSError) as error:
            self._note(str(error), "error")
        self._is_loading = False
        self._show_rest()
        self._answer_if_wanted()
        self._background.changed()

    # Questions and answers

    @on(Prompt.Changed)
    def _typed(self) -> None:
        self._background.changed()

    def _beginning(self) -> Beginning | None:
        """What the next prompt will begin with; None while the engine has something else to do."""
        profile = self._engine.profile
        is_free = not (self._is_loading or self._is_answering or self._wants_answer)
        if profile is None or not is_free or self._editing is not None:
            return None
        try:
            options = self._services.options(profile)
        except (SpecchatError, SpecEngineError):  # told when a question is asked
            return None
        return Beginning(
            self._conversation.turns(profile.target, profile.system),
            self.query_one(Prompt).message,
            replace(options, chat_id=self._conversation.chat_id),
        )

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        if self._is_answering:
            self.query_one(Queue).push(event.text)
            if self._is_verifying:  # that can wait
                self._engine.stop()
        else:
            self._ask(event.text)

    @work(group="ask")
    async def _ask(self, text: str) -> None:
        transcript = self.query_one(Transcript)
        if (edited := self._editing) is not None:
            self._set_editing(None)
            await transcript.cut(self._conversation.cut(edited))
        transcript.add(self._conversation.ask(text))
        self._show_title()
        self._changed()
        self._wants_answer = True
        self._answer_if_wanted()

    def _answer_if_wanted(self, instead_of: Sequence[Entry] = ()) -> None:
        profile = self._engine.profile
        is_free = not (self._is_loading or self._is_answering)
        if self._wants_answer and is_free and profile is not None:
            self._wants_answer = False
            self._is_answering = True
            self._answer(profile, instead_of)

    @work(group="answer")
    async def _answer(self, profile: Profile, instead_of: Sequence[Entry]) -> None:
        turns = self._conversation.turns(profile.target, profile.system)
        entry = self._conversation.answer(profile.target)
        view = self.query_one(Transcript).add(entry)
        self._show_activity(Content("reading"))
        options = replace(
            self._services.options(profile), inspect=True, chat_id=self._conversation.chat_id
        )
        finished = await self._follow(entry, view, turns, options)
        self._finish(entry, view, finished, _STATUS[finished.reason], instead_of)

    async def _follow(
        self, entry: Entry, view: MessageView, turns: Sequence[Turn], options: AnswerOptions
    ) -> Finished:
        """Shows what the engine says of `entry`, as it comes."""
        status = self.query_one(StatusLine)
        drawing = self.set_interval(1 / _FRAMES_PER_S, view.show_new)
        finished: Finished | None = None
        async for event in self._engine.answer(turns, options):
            match event:
                case Progress():
                    self._show_progress(event)
                case Chunk():
                    entry.add(event)
                    status.stats = event.stats
                    self._show_activity(Content(_ALONE if event.unverified else _WRITING))
                    self._changed()
                case Reviewed():
                    entry.review(event)
                    status.stats = event.stats
                    self._show_activity(Content(_WRITING))
                    self._changed()
                case InspectedRound():
                    entry.rounds.append(event)
                case Finished():
                    finished = event
        drawing.stop()
        assert finished is not None
        status.stats = finished.stats
        return finished

    def _finish(
        self,
        entry: Entry,
        view: MessageView,
        finished: Finished,
        status: Status,
        instead_of: Sequence[Entry] = (),
    ) -> None:
        transcript = self.query_one(Transcript)
        entry.finish(finished, status)
        if entry.text:
            view.finish()
        elif entry in self._conversation.entries:  # else the chat was deleted meanwhile
            self._conversation.cut(entry)
            view.remove()
            for old in instead_of:
                self._conversation.entries.append(old)
                transcript.add(old)
        for notice in finished.notices:
            self._note(notice)
        if finished.error and not self._is_verifying:
            self._note(finished.error, "error")
        self._is_answering = self._is_verifying = False
        self._background.changed()
        self._changed()
        self._show_places()
        self._show_rest()
        if (text := self.query_one(Queue).pop()) is not None:
            self._ask(text)

    def _unverified(self) -> Entry | None:
        """The last answer, where the target could verify words of it and the engine is free."""
        profile, last = self._engine.profile, self._conversation.last("assistant")
        is_free = not (self._is_loading or self._is_answering or self._wants_answer)
        if profile is None or last is None or not is_free or self._editing is not None:
            return None
        is_at_end = self._conversation.entries[-1] is last
        return last if is_at_end and last.begun and last.model == profile.target else None

    def _verify(self) -> None:
        """Has the target verify the last answer, and go on with it where it would."""
        if (entry := self._unverified()) is not None:
            self._is_answering = self._is_verifying = True
            self._verify_answer(entry)

    @work(group="answer")
    async def _verify_answer(self, entry: Entry) -> None:
        profile = self._engine.profile
        assert profile is not None
        view = next(v for v in self.query(MessageView) if v.entry is entry)
        options = replace(self._services.options(profile), begun=entry.begun)
        if entry.status in ("stopped", "interrupted"):  # nobody wants more of it
            options = replace(options, max_tokens=len(entry.tokens))
        turns = self._conversation.turns(profile.target, profile.system, before=entry)
        finished = await self._follow(entry, view, turns, options)
        self._finish(entry, view, finished, _status_verified(entry.status, finished))

    def action_stop(self) -> None:
        """Ends the answer and keeps what came; what was typed meanwhile is in the prompt again."""
        if self._engine.is_busy:
            self._show_activity(Content("stopping"))
            self._engine.stop()
        elif self._editing is not None:
            self._set_editing(None)
            self.query_one(Prompt).clear()
        if queued := self.query_one(Queue).take_all():
            prompt = self.query_one(Prompt)
            prompt.fill("\n\n".join([*queued, prompt.message]).rstrip("\n"))

    def action_regenerate(self) -> None:
        last = self._conversation.entries[-1:]
        if self._is_answering or not last:
            return
        self._regenerate(last if last[0].role == "assistant" else [])

    @work(group="ask")
    async def _regenerate(self, old: Sequence[Entry]) -> None:
        if old:
            await self.query_one(Transcript).cut(self._conversation.cut(old[0]))
        self._wants_answer = True
        self._answer_if_wanted(instead_of=old)

    @on(Prompt.PreviousRequested)
    def _edit_previous(self) -> None:
        """Puts the last question into the prompt, to be asked differently."""
        question = self._conversation.last("user")
        if question is not None and not self._is_answering:
            self._set_editing(question)
            self.query_one(Prompt).fill(question.text)

    def _set_editing(self, question: Entry | None) -> None:
        self._editing = question
        title = "editing the last message · Esc leaves it" if question else ""
        self.query_one(Prompt).border_title = title

    # Chats

    @work(group="store")
    async def _open_store(self) -> None:
        """Opens the store and shows the last chat, unless the person was faster."""
        try:
            self._store = await asyncio.to_thread(self._services.open_store)
            last = await asyncio.to_thread(_last_chat, self._store)
        except SpecchatError as error:
            self._note(f"Chats are not saved: {error}", "error")
            return
        self._saver = Saver(self._store, self._current, self._note)
        self.run_worker(self._saver.run(), group="save")
        self._changed()
        if last is not None and not self._conversation.entries:
            await self._show(last)

    def action_new_chat(self) -> None:
        self._switch(None)

    def action_open_chat(self) -> None:
        if self._store is not None:
            self.app.push_screen(ChatsDialog(self._store, self._forget), self._chosen_chat)

    def _chosen_chat(self, chat_id: int | None) -> None:
        if chat_id is not None:
            self._switch(chat_id)

    def _forget(self, chat_id: int) -> None:
        """A chat is about to be deleted; if it is this one, nothing more of it is saved."""
        if chat_id == self._conversation.chat_id:
            self._conversation = Conversation()
            self._switch(None)

    @work(group="switch", exclusive=True)
    async def _switch(self, chat_id: int | None) -> None:
        """Another chat, or a new one. This one stays if it cannot be saved."""
        if self._is_answering:
            self.action_stop()
            await self._answer_ended()
        if not await self._save():
            self.notify("This chat could not be saved, so it stays open.", severity="error")
            return
        conversation = Conversation()
        if chat_id is not None and self._store is not None:
            try:
                conversation = await asyncio.to_thread(_load_chat, self._store, chat_id)
            except SpecchatError as error:
                self.notify(str(error), severity="error")
                return
        self.run_worker(self._background.keep(self._beginning()), group="keep")
        await self._show(conversation)

    async def _show(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._wants_answer = False
        self._set_editing(None)
        self.query_one(StatusLine).stats = None
        self._show_title()
        await self.query_one(Transcript).show(conversation.entries)
        self._show_places()
        self._background.changed()

    @work(group="places", exclusive=True)
    async def _show_places(self) -> None:
        """Which of how many versions each message is."""
        saved = await self._save()  # first: a new chat has no id before
        chat_id, store = self._conversation.chat_id, self._store
        if store is None or chat_id is None or not saved:
            return
        with suppress(SpecchatError):  # deleted meanwhile
            self._conversation.number(await asyncio.to_thread(store.versions, chat_id))
            for view in self.query(MessageView):
                view.show_place()

    def _current(self) -> tuple[Conversation, str]:
        profile = self._engine.profile
        return self._conversation, profile.name if profile else ""

    def _changed(self) -> None:
        if self._saver is not None:
            self._saver.changed()

    async def _save(self) -> bool:
        """Whether the store has all of this chat; where there is no store nothing can be kept."""
        return self._saver is None or await self._saver.save()

    # Leaving

    async def shut_down(self) -> bool:
        """Ends the answer, saves all there is, frees the models; within a few seconds.

        Whether everything could be saved.
        """
        unsent = self.query_one(Queue).take_all()
        if typed := self.query_one(Prompt).message:
            await asyncio.to_thread(self._services.keep_unsent, typed)
        self._engine.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_AT_EXIT_S):
                await self._answer_ended()
        for text in unsent:
            self._conversation.ask(text)
        saved = await self._save()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_AT_EXIT_S):
                await self._background.keep(self._beginning())
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_AT_EXIT_S):
                await self._engine.close()
        return saved

    async def _answer_ended(self) -> None:
        for worker in [worker for worker in self.workers if worker.group == "answer"]:
            await worker.wait()

    async def action_interrupt(self) -> None:
        """Ctrl+C: ends the answer, or copies what is selected, or leaves at the second press."""
        selected = self.query_one(Prompt).selected_text or self.get_selected_text()
        if self._engine.is_busy:
            self.action_stop()
        elif selected:
            self.app.copy_to_clipboard(selected)
        elif time.monotonic() - self._interrupted < _SECOND_PRESS_S:
            await self.app.run_action("quit")
        else:
            self._interrupted = time.monotonic()
            self.notify("Ctrl+C again leaves, and so does Ctrl+Q.", timeout=_SECOND_PRESS_S)

    # Commands

    def commands(self) -> Iterable[SystemCommand]:
        """What the palette offers here."""
        yield SystemCommand("New chat", "Start afresh (Ctrl+N)", self.action_new_chat)
        yield SystemCommand("Chats", "Open, find or delete one (Ctrl+O)", self.action_open_chat)
        yield SystemCommand("Models", "Choose who answers (Ctrl+T)", self.action_choose_model)
        yield SystemCommand("Answer again", "Another last answer (Ctrl+R)", self.action_regenerate)
        yield SystemCommand(
            "Other version",
            "Of the last message that has several (Alt+Right, Ctrl+G)",
            partial(self.action_other_version, 1),
        )
        yield SystemCommand(
            "Verify", "What the target has not yet of the last answer", self.action_verify_now
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

    async def action_verify_now(self) -> None:
        if not await self._verifier.look():
            self.notify("There is nothing to verify here, or the target is out of reach.")

    @work(group="switch", exclusive=True)
    async def action_other_version(self, step: int) -> None:
        """Goes to another version of the last message that has one, and to what follows there."""
        if self._is_answering or not await self._save():
            return
        chat_id, store = self._conversation.chat_id, self._store
        if store is None or chat_id is None:
            return
        versions = await asyncio.to_thread(store.versions, chat_id)
        ids = [entry.stored_id for entry in self._conversation.entries]
        here = next((i for i in reversed(ids) if i in versions), None)
        if here is None:
            self.notify("Nothing here has another version. Ctrl+R makes one, and so does editing.")
            return
        place = versions[here].index(here) + step
        await asyncio.to_thread(store.go_to, chat_id, versions[here][place % len(versions[here])])
        self._conversation.go_to(await asyncio.to_thread(store.messages, chat_id))
        self._conversation.number(versions)
        await self._show(self._conversation)

    def action_choose_model(self) -> None:
        dialog = ProfilesDialog(self._services, self._engine.profile)
        self.app.push_screen(dialog, self._choose)

    def action_inspect(self) -> None:
        """Opens the rounds of the answers that were made in this session."""
        entries = self._conversation.entries
        replies = [Reply(e.text, e.rounds, e.stats or {}) for e in entries if e.rounds]
        if replies:
            self.app.push_screen(InspectorScreen(replies))
        else:
            self.notify("There is no answer yet that was made here, in this session.")

    def action_copy_answer(self) -> None:
        if answer := self._conversation.last("assistant"):
            self.app.copy_to_clipboard(answer.text)
            self.notify(
                "Copied, where the terminal allows it. Ctrl+P can save it to a file instead."
            )

    @work(group="export")
    async def action_save_answer(self) -> None:
        if answer := self._conversation.last("assistant"):
            try:
                path = await asyncio.to_thread(save_text, answer.text)
            except OSError as error:
                self.notify(f"The answer cannot be written here: {error}", severity="error")
            else:
                self.notify(f"Saved as {path}")

    # What is shown

    def _note(self, text: str, kind: NoteKind = "info") -> None:
        self.query_one(Transcript).note(text, kind)

    def _show_title(self) -> None:
        self.query_one(ChatTitle).show(self._conversation)

    def _show_rest(self) -> None:
        """Nothing happens: only what is loaded."""
        self.query_one(StatusLine).profile = self._engine.profile
        self._show_activity(Content())

    def _show_activity(self, activity: Content) -> None:
        self.query_one(StatusLine).activity = activity

    def _show_progress(self, event: Progress) -> None:
        if self._engine.is_busy:  # else a report that was overtaken by the end
            self._show_activity(progress_content(event))

    def action_scroll_transcript(self, where: Destination) -> None:
        self.query_one(Transcript).scroll_by_key(where)


def _status_verified(before: Status, finished: Finished) -> Status:
    """How an answer ended that was verified later: as before, unless the target says otherwise."""
    if finished.reason in ("cancelled", "error") and not finished.replaced:
        return before
    if finished.reason == "length" and before in ("stopped", "interrupted"):
        return before
    return _STATUS[finished.reason]


def _last_chat(store: ChatStore) -> Conversation | None:
    newest = store.chats(limit=1)
    return _load_chat(store, newest[0].id) if newest else None


def _load_chat(store: ChatStore, chat_id: int) -> Conversation:
    return Conversation(store.chat(chat_id), store.messages(chat_id))
