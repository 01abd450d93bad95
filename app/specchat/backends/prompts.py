"""From the turns of a chat to the token ids that a target is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from specchat.backends.answer_options import AnswerOptions
from specengine.chat.chat_template import Turn, encode_chat
from specengine.chat.conversation import alternating, fit_turns, stable_beginning
from specengine.chat.reasoning_format import reasoning_format
from specengine.core.think import Think
from specengine.llama.vocab import LlamaVocab

# Kept free for the answer when old turns leave a full context, in tokens.
_ANSWER_ROOM = 512


class Target(Protocol):
    """What makes token ids of a chat for a target, and how many it takes."""

    @property
    def vocab(self) -> LlamaVocab: ...

    @property
    def chat_template(self) -> str | None: ...

    @property
    def n_ctx(self) -> int: ...


def encode_prompt(
    target: Target, turns: Sequence[Turn], options: AnswerOptions
) -> tuple[list[int], tuple[str, ...]]:
    """The prompt's token ids, and what a person should know about them.

    There has to be room for `max_tokens` of the answer. Raises ContextFullError, TemplateError.
    """
    if options.raw:
        text = "".join(turn.text for turn in turns)
        return target.vocab.tokenize(text, bos=True), ()
    room = min(options.max_tokens or _ANSWER_ROOM, target.n_ctx // 4)

    def encode(kept: Sequence[Turn]) -> list[int]:
        return encode_chat(
            target.chat_template, alternating(kept), target.vocab, think=options.think
        )

    kept, dropped = fit_turns(turns, lambda some: len(encode(some)), target.n_ctx - room)
    notice = (
        f"the chat is longer than the context of {target.n_ctx} tokens: left out its "
        f"oldest {dropped} messages"
    )
    notices = [notice] if dropped else []
    if options.think is not None:
        notices += _unheeded(target.chat_template, options.think)
    return encode(kept), tuple(notices)


def _unheeded(template: str | None, think: Think) -> list[str]:
    """What to say if the template has no place for `think`."""
    known = reasoning_format(template)
    settings = () if known is None else known.settings
    if think in settings:
        return []
    can = f"it knows {', '.join(settings)}" if settings else "it knows none"
    return [f"--think {think}: the model's chat template has no such setting, {can}"]


def next_prompt(
    target: Target, turns: Sequence[Turn], typed: str, options: AnswerOptions
) -> Sequence[int]:
    """What the prompt begins with when the question that is being typed after `turns` is asked.

    Raises as `encode_prompt`.
    """

    templated = replace(options, raw=False)

    def encode(turns: Sequence[Turn]) -> list[int]:
        return encode_prompt(target, turns, templated)[0]

    return stable_beginning(turns, typed, encode)
