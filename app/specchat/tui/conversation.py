"""The chat on the screen: its messages, and what the model is given of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from specchat.storage.records import Chat, Message, Role, Status
from specengine.chat_template import Turn
from specengine.inspection import InspectedRound


@dataclass(eq=False, slots=True)
class Entry:
    """A message. The `stored_…` fields say how much of it the store has; only the recorder sets
    them.
    """

    role: Role
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    status: Status = "done"
    model: str | None = None
    """Whose words an answer is, and whose token ids."""
    stats: dict[str, Any] | None = None
    rounds: list[InspectedRound] = field(default_factory=list)
    """How an answer of this session was made; never stored."""

    stored_id: int | None = None
    stored_length: int = 0
    stored_tokens: int = 0
    stored_status: Status | None = None

    @classmethod
    def from_message(cls, message: Message) -> Self:
        return cls(
            role=message.role,
            text=message.text,
            tokens=list(message.tokens),
            status=message.status,
            model=message.model,
            stats=message.stats,
            stored_id=message.id,
            stored_length=len(message.text),
            stored_tokens=len(message.tokens),
            stored_status=message.status,
        )


class Conversation:
    """One branch of one chat."""

    def __init__(self, chat: Chat | None = None, messages: Iterable[Message] = ()) -> None:
        """A chat from the store, or one that the store gets with its first message."""
        self.chat_id = chat.id if chat else None
        self.title = chat.title if chat else ""
        self.entries = [Entry.from_message(message) for message in messages]

    def ask(self, text: str) -> Entry:
        return self._add(Entry("user", text))

    def answer(self, model: str) -> Entry:
        return self._add(Entry("assistant", status="streaming", model=model))

    def last(self, role: Role) -> Entry | None:
        return next((entry for entry in reversed(self.entries) if entry.role == role), None)

    def cut(self, entry: Entry) -> list[Entry]:
        """Takes `entry` and what follows off this branch; the store keeps it as another."""
        index = self.entries.index(entry)
        removed, self.entries = self.entries[index:], self.entries[:index]
        return removed

    def turns(self, model: str, system: str | None) -> list[Turn]:
        """What `model` is given: its system message, unless it is None, and this branch."""
        turns = [] if system is None else [Turn("system", system)]
        for entry in self.entries:
            if not entry.text:
                continue
            own = entry.role == "assistant" and entry.model == model and entry.tokens
            turns.append(Turn(entry.role, entry.text, tuple(entry.tokens) if own else None))
        return turns

    def _add(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        return entry
