"""From the turns of a chat to the token ids that a target is given."""

from __future__ import annotations

from collections.abc import Sequence

from specchat.backends.scoring.pair import ScoringPair
from specchat.backends.verify_server.pair import RemotePair
from specengine.chat.chat_template import Turn, encode_chat
from specengine.chat.conversation import alternating, fit_turns, stable_beginning
from specengine.load.pair import Pair

# Kept free for the answer when old turns leave a full context, in tokens.
_ANSWER_ROOM = 512


def encode_prompt(
    pair: Pair | RemotePair | ScoringPair,
    turns: Sequence[Turn],
    *,
    max_tokens: int | None,
    raw: bool = False,
) -> tuple[list[int], tuple[str, ...]]:
    """The prompt's token ids, and what a person should know about them.

    `max_tokens` of the answer, for which there has to be room. `raw`: without the chat template.
    Raises ContextFullError, TemplateError.
    """
    if raw:
        text = "".join(turn.text for turn in turns)
        return pair.vocab.tokenize(text, bos=True), ()
    room = min(max_tokens or _ANSWER_ROOM, pair.n_ctx // 4)

    def encode(kept: Sequence[Turn]) -> list[int]:
        return encode_chat(pair.chat_template, alternating(kept), pair.vocab)

    kept, dropped = fit_turns(turns, lambda some: len(encode(some)), pair.n_ctx - room)
    notice = (
        f"the chat is longer than the context of {pair.n_ctx} tokens: left out its "
        f"oldest {dropped} messages"
    )
    return encode(kept), (notice,) if dropped else ()


def next_prompt(
    pair: Pair, turns: Sequence[Turn], typed: str, *, max_tokens: int | None
) -> Sequence[int]:
    """What the prompt begins with when the question that is being typed after `turns` is asked.

    Raises as `encode_prompt`.
    """

    def encode(turns: Sequence[Turn]) -> list[int]:
        return encode_prompt(pair, turns, max_tokens=max_tokens)[0]

    return stable_beginning(turns, typed, encode)
