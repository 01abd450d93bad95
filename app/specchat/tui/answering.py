"""Loads the models, has them answer what is asked, and shows what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from textual.content import Content
from textual.screen import Screen

from specchat.backends.answer_options import AnswerOptions
from specchat.chats.records import Status
from specchat.errors import SpecchatError
from specchat.models.registry import Profile
from specchat.printable import one_line
from specchat.tui.background import Background
from specchat.tui.conversation import Entry
from specchat.tui.engine import Engine
from specchat.tui.open_chat import OpenChat
from specchat.tui.services import Services
from specchat.tui.versions import Versions
from specchat.tui.widgets.chat_title import ChatTitle
from specchat.tui.widgets.message import MessageView
from specchat.tui.widgets.prompt import Prompt
from specchat.tui.widgets.queue import Queue
from specchat.tui.widgets.status_line import StatusLine, progress_content
from specchat.tui.widgets.transcript import Transcript
from specengine.chat.chat_template import Turn
from specengine.core.errors import SpecEngineError
from specengine.core.events import Chunk, Finished, FinishReason, Progress, Reviewed
from specengine.loop.inspection import InspectedRound

_FRAMES_PER_S = 15

_WRITING = "writing · Esc stops"
_THINKING = "thinking · Esc stops"
_ALONE = "no target: the draft model writes · Esc stops"

_STATUS: dict[FinishReason, Status] = {
    "stop": "done",
    "length": "length",
    "cancelled": "stopped",
    "error": "failed",
}


class Answering:
    """One answer at a time, of the chat on the screen, in workers of the screen.

    What is asked during an answer waits in the queue; what is asked while the models are loaded is
    answered as soon as they are there.
    """

    def __init__(
        self,
        screen: Screen[None],
        services: Services,
        chat: OpenChat,
        versions: Versions,
        background: Background,
    ) -> None:
        self.engine = Engine(services.runtime)
        self.is_answering = False
        """Whether an answer is being written or verified."""
        self._screen = screen
        self._services = services
        self._chat = chat
        self._versions = versions
        self._background = background
        self._is_loading = False
        self._is_verifying = False
        self._wants_answer = False

    @property
    def idle_profile(self) -> Profile | None:
        """What is loaded, if nothing is asked of it and no earlier question is being edited."""
        is_busy = self._is_loading or self.is_answering or self._wants_answer
        is_editing = self._screen.query_one(Prompt).editing is not None
        return None if is_busy or is_editing else self.engine.runtime.profile

    # Models

    def load(self, profile: Profile, *, remember: bool = False) -> None:
        """Loads `profile` in place of what is loaded, for the next start too if `remember`."""
        self._screen.run_worker(self._load(profile, remember), group="load")

    async def _load(self, profile: Profile, remember: bool) -> None:
        self._is_loading = True
        self._screen.query_one(StatusLine).stats = None
        self._show_activity(Content(f"loading {one_line(profile.name)}"))
        try:
            self._services.options(profile)  # settings that do not fit show now, not at an answer
            loaded = await self.engine.load(self._services.adjusted(profile), self._show_progress)
            if loaded and remember:
                await asyncio.to_thread(self._services.remember, profile)
        except (SpecchatError, SpecEngineError, OSError) as error:
            self._transcript.note(str(error), "error")
        self._is_loading = False
        self.show_rest()
        self._answer_if_wanted()
        self._background.changed()

    # Questions

    def ask(self, text: str) -> None:
        """After the present answer, if there is one; in place of the question that is edited."""
        if self.is_answering:
            self._screen.query_one(Queue).push(text)
            if self._is_verifying:  # that can wait
                self.engine.stop()
        else:
            self._screen.run_worker(self._ask(text), group="ask")

    async def _ask(self, text: str) -> None:
        prompt = self._screen.query_one(Prompt)
        if (edited := prompt.editing) is not None:
            prompt.editing = None
            await self._transcript.cut(self._chat.conversation.cut(edited))
        self._transcript.add(self._chat.conversation.ask(text))
        self._screen.query_one(ChatTitle).show(self._chat.conversation)
        self._chat.changed()
        self._wants_answer = True
        self._answer_if_wanted()

    def ask_again(self) -> None:
        """Another answer to the last question."""
        last = self._chat.conversation.entries[-1:]
        if last and not self.is_answering:
            old = last if last[0].role == "assistant" else []
            self._screen.run_worker(self._ask_again(old), group="ask")

    async def _ask_again(self, old: Sequence[Entry]) -> None:
        if old:
            await self._transcript.cut(self._chat.conversation.cut(old[0]))
        self._wants_answer = True
        self._answer_if_wanted(instead_of=old)

    def forget_question(self) -> None:
        """What was asked and is not being answered yet is not answered any more."""
        self._wants_answer = False

    # Answers

    def _answer_if_wanted(self, instead_of: Sequence[Entry] = ()) -> None:
        profile = self.engine.runtime.profile
        is_free = not (self._is_loading or self.is_answering)
        if self._wants_answer and is_free and profile is not None:
            self._wants_answer = False
            self.is_answering = True
            self._screen.run_worker(self._answer(profile, instead_of), group="answer")

    async def _answer(self, profile: Profile, instead_of: Sequence[Entry]) -> None:
        conversation = self._chat.conversation
        turns = conversation.turns(profile.target, profile.system)
        entry = conversation.answer(profile.target)
        view = self._transcript.add(entry)
        self._show_activity(Content("reading"))
        options = replace(
            self._services.options(profile), inspect=True, chat_id=conversation.chat_id
        )
        finished = await self._follow(entry, view, turns, options)
        self._finish(entry, view, finished, _STATUS[finished.reason], instead_of)

    def verify(self, entry: Entry) -> None:
        """Has the target verify the last answer, and go on with it where it would."""
        profile = self.engine.runtime.profile
        assert profile is not None
        self.is_answering = self._is_verifying = True
        self._screen.run_worker(self._verify(profile, entry), group="answer")

    async def _verify(self, profile: Profile, entry: Entry) -> None:
        view = next(v for v in self._screen.query(MessageView) if v.entry is entry)
        options = replace(self._services.options(profile), begun=entry.begun)
        if entry.status in ("stopped", "interrupted"):  # nobody wants more of it
            options = replace(options, max_tokens=len(entry.tokens))
        turns = self._chat.conversation.turns(profile.target, profile.system, before=entry)
        finished = await self._follow(entry, view, turns, options)
        self._finish(entry, view, finished, _status_verified(entry.status, finished))

    async def _follow(
        self, entry: Entry, view: MessageView, turns: Sequence[Turn], options: AnswerOptions
    ) -> Finished:
        """Shows what the engine says of `entry`, as it comes."""
        status = self._screen.query_one(StatusLine)
        drawing = self._screen.set_interval(1 / _FRAMES_PER_S, view.show_new)
        finished: Finished | None = None
        async for event in self.engine.answer(turns, options):
            match event:
                case Progress():
                    self._show_progress(event)
                case Chunk():
                    entry.add(event)
                    status.stats = event.stats
                    self._show_activity(Content(_activity(event)))
                    self._chat.changed()
                case Reviewed():
                    entry.review(event)
                    status.stats = event.stats
                    self._show_activity(Content(_WRITING))
                    self._chat.changed()
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
        entry.finish(finished, status)
        conversation = self._chat.conversation
        if not entry.is_empty:
            view.finish()
        elif entry in conversation.entries:  # else the chat was deleted meanwhile
            conversation.cut(entry)
            view.remove()
            for old in instead_of:
                conversation.entries.append(old)
                self._transcript.add(old)
        for notice in finished.notices:
            self._transcript.note(notice)
        if finished.error and not self._is_verifying:
            self._transcript.note(finished.error, "error")
        self.is_answering = self._is_verifying = False
        self._background.changed()
        self._chat.changed()
        self._versions.show()
        self.show_rest()
        if (text := self._screen.query_one(Queue).pop()) is not None:
            self.ask(text)

    def stop(self) -> None:
        """Ends the answer and keeps what came; what was typed meanwhile is in the prompt again."""
        prompt = self._screen.query_one(Prompt)
        if self.engine.is_busy:
            self._show_activity(Content("stopping"))
            self.engine.stop()
        elif prompt.editing is not None:
            prompt.editing = None
            prompt.clear()
        if queued := self._screen.query_one(Queue).take_all():
            prompt.fill("\n\n".join([*queued, prompt.message]).rstrip("\n"))

    async def ended(self) -> None:
        """Returns when the present answer has ended."""
        for worker in [worker for worker in self._screen.workers if worker.group == "answer"]:
            await worker.wait()

    # What is shown

    def show_rest(self) -> None:
        """Nothing happens: only what is loaded."""
        status = self._screen.query_one(StatusLine)
        status.profile, status.context_size = self.engine.runtime.profile, self.engine.runtime.n_ctx
        self._show_activity(Content())

    def _show_activity(self, activity: Content) -> None:
        self._screen.query_one(StatusLine).activity = activity

    def _show_progress(self, event: Progress) -> None:
        if self.engine.is_busy:  # else a report that was overtaken by the end
            self._show_activity(progress_content(event))

    @property
    def _transcript(self) -> Transcript:
        return self._screen.query_one(Transcript)


def _activity(chunk: Chunk) -> str:
    if chunk.unverified:
        return _ALONE
    return _THINKING if chunk.reasoning else _WRITING


def _status_verified(before: Status, finished: Finished) -> Status:
    """How an answer ended that was verified later: as before, unless the target says otherwise."""
    if finished.reason in ("cancelled", "error") and not finished.replaced:
        return before
    if finished.reason == "length" and before in ("stopped", "interrupted"):
        return before
    return _STATUS[finished.reason]
