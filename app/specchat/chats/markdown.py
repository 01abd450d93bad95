"""A chat as Markdown, for people: the current branch, then what other branches add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from specchat.chats.records import Chat, Message

NAMES = {"system": "System", "user": "You", "assistant": "Assistant"}

_QUOTED = 40  # characters

_ENDINGS = {
    "streaming": "still being written",
    "stopped": "stopped",
    "length": "cut off at the length limit",
    "failed": "failed",
    "interrupted": "interrupted",
}


def markdown(chat: Chat, tree: Sequence[Message]) -> str:
    """The whole `tree` of `chat`, each message once, numbered in the order they were written."""
    numbers = {message.id: i for i, message in enumerate(tree, start=1)}
    lines = [f"# {' '.join(chat.title.split()) or 'Untitled chat'}", ""]
    lines += [f"{chat.created_at.astimezone():%Y-%m-%d %H:%M}, profile {chat.profile}", ""]
    shown: set[int] = set()
    for branch in _branches(chat, tree):
        new = [message for message in branch if message.id not in shown]
        if shown:
            parent = new[0].parent_id
            after = "from the beginning" if parent is None else f"after message {numbers[parent]}"
            lines += ["---", "", f"*Another branch, {after}:*", ""]
        for message in new:
            lines += _section(message, numbers[message.id])
        shown.update(message.id for message in new)
    return "\n".join(lines)


def _branches(chat: Chat, tree: Sequence[Message]) -> Iterator[list[Message]]:
    """Every branch from its root to its leaf, the current one first."""
    by_id = {message.id: message for message in tree}
    parents = {message.parent_id for message in tree}
    leaves = [message.id for message in tree if message.id not in parents]
    ends = leaves if chat.head_id is None else [chat.head_id, *leaves]
    shown: set[int] = set()
    for end in ends:
        branch: list[Message] = []
        at: int | None = end
        while at is not None:
            branch.append(by_id[at])
            at = by_id[at].parent_id
        if end not in shown:
            yield branch[::-1]
        shown.update(message.id for message in branch)


def _section(message: Message, number: int) -> list[str]:
    lines = [f"## {number}. {NAMES[message.role]}", ""]
    if message.reasoning:
        lines += [
            "<details><summary>Thought</summary>",
            "",
            message.reasoning,
            "",
            "</details>",
            "",
        ]
    lines += [message.text, ""]
    facts = [message.model, _ENDINGS.get(message.status), _unverified(message)]
    facts += _speed(message.stats or {})
    if line := ", ".join(fact for fact in facts if fact):
        lines += [f"*({line})*", ""]
    return lines


def _unverified(message: Message) -> str | None:
    if (mark := message.unverified) is None:
        return None
    words = " ".join(message.text[mark.char :].split())
    beginning = words if len(words) <= _QUOTED else words[:_QUOTED].rstrip() + "…"
    return f"not verified by the target from “{beginning}” on: written by {mark.writer}"


def _speed(stats: dict[str, Any]) -> Iterator[str]:
    """What was measured, as far as the recorded figures have it."""
    figures = [
        ("timing", "tokens_per_s", "{:.1f} tokens/s"),
        ("speculation", "acceptance_rate", "{:.0%} of the draft tokens accepted"),
        ("speculation", "tokens_per_pass", "{:.1f} tokens per pass"),
    ]
    for group, name, form in figures:
        values = stats.get(group)
        value = values.get(name) if isinstance(values, dict) else None
        if isinstance(value, int | float):
            yield form.format(value)
