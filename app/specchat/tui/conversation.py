"""The chat on the screen: its messages, and what the model is given of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from specchat.chats.records import Chat, Message, Role, Status
from specengine.chat.chat_template import Turn
from specengine.core.events import Chunk, Finished, Reviewed, Unverified, Version
from specengine.core.statistics import Statistics
from specengine.loop.inspection import InspectedRound
from specengine.stream.unverified import PartialAnswer


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there is of a message at one moment; an answer goes on meanwhile."""

    text: str
    tokens: tuple[int, ...] = ()
    status: Status = "done"
    stats: dict[str, Any] | None = None
    unverified: Unverified | None = None
    replaced: tuple[Version, ...] = ()
    reasoning: str = ""
    answer_at: int = 0


@dataclass(eq=False, slots=True)
class Entry:
    """A message of the branch on the screen."""

    role: Role
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    status: Status = "done"
    model: str | None = None
    """Whose words an answer is, and whose token ids."""
    stats: dict[str, Any] | None = None
    timing: Mapping[str, Any] = field(default_factory=dict)
    """As `Statistics.timing`, while it is written, too."""
    rounds: list[InspectedRound] = field(default_factory=list)
    """How an answer of this session was made; never stored."""
    unverified: Unverified | None = None
    """Where the words of a draft model begin that the target has not verified."""
    reasoning: str = ""
    """What was thought before an answer."""
    answer_at: int = 0
    """Index of the answer's first token."""
    replaced: list[Version] = field(default_factory=list)
    """Other versions, which were shown and in whose place the target said this."""
    place: tuple[int, int] = (1, 1)
    """Which it is of how many versions."""
    stored_id: int | None = None
    stored: Snapshot | None = None
    """What the store has of it, under `stored_id`; `recorder` sets both."""

    def add(self, chunk: Chunk) -> None:
        """What a round added."""
        self.text += chunk.text
        self.tokens += chunk.tokens
        self.unverified = chunk.unverified
        self.reasoning += chunk.reasoning
        self._count(chunk.stats)

    def review(self, event: Reviewed) -> None:
        """What the target says of unverified words."""
        self.text, self.tokens = event.now.text, list(event.now.tokens)
        self.unverified = event.now.unverified
        self.reasoning = event.now.reasoning
        self._count(event.stats)
        if event.replaced is not None:
            self.replaced.append(event.replaced)

    def finish(self, finished: Finished, status: Status) -> None:
        """It has ended, as `finished` has it."""
        self.status = status
        self.stats = finished.stats.model_dump()
        self.timing = finished.stats.timing()
        if finished.text or finished.reasoning:
            self.text, self.tokens = finished.text, list(finished.tokens)
            self.unverified = finished.unverified
            self.reasoning, self.answer_at = finished.reasoning, finished.answer_at

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.text,
            tuple(self.tokens),
            self.status,
            self.stats,
            self.unverified,
            tuple(self.replaced),
            self.reasoning,
            self.answer_at,
        )

    def _count(self, stats: Statistics) -> None:
        self.timing = stats.timing()
        self.answer_at = stats.reasoning_tokens

    @property
    def thought_s(self) -> float | None:
        """Seconds from the first token to the answer's first, or until now; None if unknown."""
        known = (self.timing.get(name) for name in ("ttft_s", "answer_s", "decode_s"))
        first, answer, now = (x if isinstance(x, int | float) else None for x in known)
        return now if answer is None or first is None else answer - first

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said, and nothing thought."""
        return not (self.text or self.reasoning)

    def forget_stored(self) -> None:
        """The store has nothing of it any more."""
        self.place = (1, 1)
        self.stored_id = self.stored = None

    @property
    def begun(self) -> PartialAnswer | None:
        """The answer as the target may verify it; None if there is nothing to verify."""
        mark = self.unverified
        return None if mark is None else PartialAnswer(tuple(self.tokens), mark)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        timing = (message.stats or {}).get("timing")
        entry = cls(
            role=message.role,
            text=message.text,
            tokens=list(message.tokens),
            status=message.status,
            model=message.model,
            stats=message.stats,
            timing=timing if isinstance(timing, dict) else {},
            unverified=message.unverified,
            reasoning=message.reasoning,
            answer_at=message.answer_at,
            stored_id=message.id,
        )
        entry.stored = entry.snapshot()
        return entry


class Conversation:
    """One branch of one chat."""

    def __init__(self, chat: Chat | None = None, messages: Iterable[Message] = ()) -> None:
        """A chat from the store, or one that the store gets with its first message."""
        self.chat_id = chat.id if chat else None
        self.title = chat.title if chat else ""
        self.entries = [Entry.from_message(message) for message in messages]

    def number(self, versions: Mapping[int, Sequence[int]]) -> None:
        """Tells each entry its place, from `ChatStore.versions`."""
        for entry in self.entries:
            if entry.stored_id is not None and (ids := versions.get(entry.stored_id)):
                entry.place = ids.index(entry.stored_id) + 1, len(ids)

    def forget_stored(self) -> None:
        """The store has nothing of this chat any more, and gets it as a new one."""
        self.chat_id = None
        for entry in self.entries:
            entry.forget_stored()

    def ask(self, text: str) -> Entry:
        return self._add(Entry("user", text))

    def answer(self, model: str) -> Entry:
        return self._add(Entry("assistant", status="streaming", model=model))

    def go_to(self, messages: Iterable[Message]) -> None:
        """Another branch of this chat. What both have stays as it is."""
        here = {entry.stored_id: entry for entry in self.entries}
        self.entries = [here.get(m.id) or Entry.from_message(m) for m in messages]

    def last(self, role: Role) -> Entry | None:
        return next((entry for entry in reversed(self.entries) if entry.role == role), None)

    def cut(self, entry: Entry) -> list[Entry]:
        """Takes `entry` and what follows off this branch; the store keeps it as another."""
        index = self.entries.index(entry)
        removed, self.entries = self.entries[index:], self.entries[:index]
        return removed

    def turns(self, model: str, system: str | None, before: Entry | None = None) -> list[Turn]:
        """What `model` is given: its system message, unless it is None, and this branch, or what
        of it is before an entry.
        """
        turns = [] if system is None else [Turn("system", system)]
        end = len(self.entries) if before is None else self.entries.index(before)
        for entry in self.entries[:end]:
            if not entry.text:
                continue
            own = entry.role == "assistant" and entry.model == model and entry.tokens
            turns.append(
                Turn(
                    entry.role,
                    entry.text,
                    tuple(entry.tokens) if own else None,
                    entry.reasoning or None,
                    entry.answer_at,
                )
            )
        return turns

    def _add(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        return entry
