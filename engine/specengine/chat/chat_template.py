"""Conversations to token ids, by the chat template that a model brings.

What a person wrote can never become structure, an answer keeps the ids it was generated
with (so that the KV cache still fits), and there are as many BOS tokens as the template asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from specengine.chat.guard import BREAK, Guard, guard_for
from specengine.chat.reasoning import part_text
from specengine.chat.reasoning_format import ReasoningFormat, reasoning_format, variables
from specengine.chat.template_sandbox import compiled
from specengine.core.errors import TemplateError
from specengine.core.think import Think
from specengine.core.vocab import Vocab

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# A lone surrogate: no text holds one once it is cleaned.
_MARK = "\udc01"  # encloses the number of a turn whose own ids go there
_MARKED = re.compile(f"{_MARK}([0-9]+){_MARK}")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an answer made; `arguments` are JSON, as it wrote them."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation. One of the role `tool` is what a call came to."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    tokens: tuple[int, ...] | None = None
    """An answer's own ids, where this model made it, the thought's before it."""
    reasoning: str | None = None
    """What was thought before an answer; the template decides what the model sees of it."""
    answer_at: int = 0
    """Index of the answer's first token in `tokens`."""
    calls: tuple[ToolCall, ...] = ()
    """What an answer called, after its text."""
    call_id: str | None = None
    """The call whose result this is."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """A turn's text, which its own ids and `rest` spell, and its thought, with marks."""

    text: str
    tokens: tuple[int, ...]
    rest: str
    thought: str
    thought_tokens: tuple[int, ...]


def encode_chat(
    template: str | None,
    turns: Sequence[Turn],
    vocab: Vocab,
    *,
    think: Think | None = None,
    add_generation_prompt: bool = True,
    begun: str = "",
) -> list[int]:
    """Token ids of a conversation, up to where the assistant's next answer begins, and of what is
    `begun` of that.

    `think` is told to the template, which may know nothing of it. A thought that stands in the text
    of an answer, marks and all, as older chats have it, is taken out of that first.
    A system turn with an empty text is an empty system message, which differs from none. Where the
    template has no place for a system message, it becomes the start of the first user turn. Raises
    TemplateError: no template, a broken one, or one that refuses this conversation or leaves out
    the calls of tools in it.
    """
    template = template or _template_for(vocab)
    chat_template = compiled(template)
    guard = guard_for(template, vocab)
    text_of = {token: text for text, token in (vocab.user_defined | vocab.control).items()}

    def render(turns: Iterable[Turn]) -> str:
        return chat_template.render(
            messages=[_message(turn, guard) for turn in turns],
            add_generation_prompt=add_generation_prompt,
            bos_token="" if vocab.bos is None else text_of.get(vocab.bos, ""),
            eos_token="" if vocab.eos is None else text_of.get(vocab.eos, ""),
            tools=None,
            documents=None,
            **variables(think),
        )

    reasoning = reasoning_format(template)
    guarded = [_guarded(_parted(turn, reasoning), guard) for turn in turns]
    placed, text = _place_system(guarded, render)
    _require_calls(placed, text, render)
    ids: list[int] = []
    for part in _with_own_ids(text, placed, vocab, guard, render):
        ids += _tokenize(part, vocab) if isinstance(part, str) else part
    return ids + _tokenize(guard.break_answered(_clean(begun)), vocab)


def _template_for(vocab: Vocab) -> str:
    """A template for a model that brings none."""
    if {"<|im_start|>", "<|im_end|>"} <= vocab.control.keys():
        return CHATML
    raise TemplateError(
        "the model brings no chat template: --raw sends the prompt without one, "
        "or choose an instruct model"
    )


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _message(turn: Turn, guard: Guard) -> dict[str, Any]:
    """As templates take it, which look for the thought under one name or another."""
    message = {
        "reasoning_content": turn.reasoning,
        "thinking": turn.reasoning,
        "tool_calls": [_call(call, guard) for call in turn.calls],
        "tool_call_id": turn.call_id,
    }
    return {"role": turn.role, "content": turn.text} | {k: v for k, v in message.items() if v}


def _call(call: ToolCall, guard: Guard) -> dict[str, Any]:
    """Its arguments as an object, which templates write as their models do."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments

    def guarded(value: Any) -> Any:
        if isinstance(value, dict):
            return {guarded(name): guarded(item) for name, item in value.items()}
        if isinstance(value, list):
            return [guarded(item) for item in value]
        return guard.break_answered(_clean(value)) if isinstance(value, str) else value

    function = {"name": guarded(call.name), "arguments": guarded(arguments)}
    return {"id": guarded(call.id), "type": "function", "function": function}


def _require_calls(
    turns: Sequence[Turn], text: str, render: Callable[[Iterable[Turn]], str]
) -> None:
    """Raises TemplateError where `text`, the rendering, would be the same without tools' calls or
    results.
    """
    for without in (
        [replace(turn, calls=()) for turn in turns],
        [turn for turn in turns if turn.role != "tool"],
    ):
        if without == list(turns):
            continue
        try:
            is_left_out = render(without) == text
        except TemplateError:
            is_left_out = False
        if is_left_out:
            raise TemplateError("the model's chat template has no place for calls of tools")


def _parted(turn: Turn, reasoning: ReasoningFormat | None) -> Turn:
    """The turn with its thought, where there is one in its text, beside that."""
    if reasoning is None or turn.role != "assistant" or turn.reasoning is not None:
        return turn
    thought, answer = part_text(reasoning, turn.text)
    if answer == turn.text:
        return turn
    return Turn(turn.role, answer, reasoning=thought, calls=turn.calls)


def _guarded(turn: Turn, guard: Guard) -> Turn:
    break_ = guard.break_answered if turn.role == "assistant" else guard.break_typed
    thought = turn.reasoning and break_(_clean(turn.reasoning))
    call_id = turn.call_id and guard.break_typed(_clean(turn.call_id))
    return replace(turn, text=break_(_clean(turn.text)), reasoning=thought, call_id=call_id)


def _tokenize(text: str, vocab: Vocab) -> list[int]:
    return [
        token
        for piece in text.split(BREAK)
        if piece
        for token in vocab.tokenize(_clean(piece), special=True)
    ]


def _place_system(
    turns: list[Turn], render: Callable[[Iterable[Turn]], str]
) -> tuple[list[Turn], str]:
    """The turns and their rendering, with system messages moved where the template takes them."""
    refusal: TemplateError | None = None
    try:
        text = render(turns)
        if all(turn.text.strip() in text for turn in turns if turn.role == "system"):
            return turns, text
    except TemplateError as error:
        if not any(turn.role == "system" for turn in turns):
            raise
        refusal = error
    system = [turn.text for turn in turns if turn.role == "system" and turn.text]
    others = [turn for turn in turns if turn.role != "system"]
    for i, turn in enumerate(others):
        if turn.role == "user":
            others[i] = replace(turn, text="\n\n".join([*system, turn.text]))
            break
    try:
        return others, render(others)
    except TemplateError as error:
        raise refusal or error from None


def _with_own_ids(
    text: str,
    turns: list[Turn],
    vocab: Vocab,
    guard: Guard,
    render: Callable[[Iterable[Turn]], str],
) -> Iterator[str | tuple[int, ...]]:
    """The rendered `text` in parts, answers' own ids in the place of exactly their texts, and those
    of thoughts where the template shows them as they were written.

    Rendering with a mark for each such answer shows what stands before it. An answer that the
    template changes or leaves out is not found there, and stays text.
    """
    found = ((i, _answer(turn, vocab, guard)) for i, turn in enumerate(turns))
    answers = {str(i): answer for i, answer in found if answer is not None}
    start = at = 0
    for before, number in _marks(turns, answers, render):
        at = text.find(before, at)
        if at < 0:
            break
        at += len(before)
        answer = answers[number]
        if text.startswith(answer.text, at):
            if answer.thought and text.endswith(answer.thought, start, at):
                yield text[start : at - len(answer.thought)]
                yield answer.thought_tokens
            else:
                yield text[start:at]
            yield answer.tokens
            yield answer.rest
            start = at = at + len(answer.text)
    yield text[start:]


def _marks(
    turns: list[Turn], answers: dict[str, _Answer], render: Callable[[Iterable[Turn]], str]
) -> list[tuple[str, str]]:
    """The marks in the rendering with marks: the text before each, and its number."""
    if not answers:
        return []
    marked = (
        replace(turn, text=f"{_MARK}{i}{_MARK}") if str(i) in answers else turn
        for i, turn in enumerate(turns)
    )
    try:
        pieces = _MARKED.split(render(marked))
    except TemplateError:
        return []
    return [
        (before, n) for before, n in zip(pieces[::2], pieces[1::2], strict=False) if n in answers
    ]


def _answer(turn: Turn, vocab: Vocab, guard: Guard) -> _Answer | None:
    """What the ids of `turn` spell of it; None where they cannot stand for its text.

    Ids may come from a file that anybody wrote: structure among them is not believed.
    """
    ids = (turn.tokens or ())[turn.answer_at :]
    if not ids or any(not 0 <= id_ < vocab.size or id_ in guard.distrusted for id_ in ids):
        return None
    spelled = b"".join(vocab.piece(token) for token in ids).decode("utf-8", "replace")
    text = turn.text.replace(BREAK, "")
    if not text.startswith(spelled):
        return None
    # Control tokens in a thought are its marks: the rendering has their texts nowhere else.
    thought_ids = (turn.tokens or ())[: turn.answer_at]
    names = {token: text for text, token in vocab.control.items()}
    thought = b"".join(names[t].encode() if t in names else vocab.piece(t) for t in thought_ids)
    rest = guard.break_answered(text[len(spelled) :])
    return _Answer(turn.text, ids, rest, thought.decode("utf-8", "replace"), thought_ids)
