"""From the turns of a chat to the token ids that a target is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from specchat.backends.answer_options import AnswerOptions
from specengine.chat.chat_template import Turn, encode_chat
from specengine.chat.conversation import alternating, fit_turns, stable_beginning
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
        return encode_chat(target.chat_template, alternating(kept), target.vocab)

    kept, dropped = fit_turns(turns, lambda some: len(encode(some)), target.n_ctx - room)
    notice = (
        f"the chat is longer than the context of {target.n_ctx} tokens: left out its "
        f"oldest {dropped} messages"
    )
    return encode(kept), (notice,) if dropped else ()


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
