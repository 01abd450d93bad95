"""Whether the prompts fit into the context, found out before hours are spent on the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specchat.backends.prompts import Target
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.suite import Item
from specengine.chat.chat_template import Turn, encode_chat


def require_room(
    target: Target, system: Sequence[Turn], items: Iterable[Item], max_tokens: int
) -> None:
    """Raises BenchmarkError for an item whose turns alone, without the answers between them, leave
    no room for the last answer, of `max_tokens` or a quarter of the context.
    """
    most = target.n_ctx - min(max_tokens, target.n_ctx // 4)
    for item in items:
        turns = list(system)
        for text in item.turns:
            turns += [Turn("user", text), Turn("assistant", "")]
        n = len(encode_chat(target.chat_template, turns[:-1], target.vocab))
        if n > most:
            raise BenchmarkError(
                f"the prompt {item.id} of {n} tokens leaves no room for an answer in a context of "
                f"{target.n_ctx}: leave it out, or give more with --ctx"
            )
