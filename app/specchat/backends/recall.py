"""Which part of a chat's prompt a kept state spares, and when one is worth keeping."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from specchat.backends.kept_states import WORTHWHILE, KeptStates
from specengine.cache.context import SavedCache
from specengine.core.tokens import Tokens, as_tokens, common_prefix
from specengine.load.pair import Pair


def recall(states: KeptStates, pair: Pair, prompt: Sequence[int], chat_id: int) -> None:
    """Restore what was kept of a chat, where that spares evaluating much of `prompt`."""
    with suppress(OSError):  # the model's file is gone
        tokens = as_tokens(prompt)
        held = common_prefix(tokens, pair.context.tokens)
        if len(tokens) - held < WORTHWHILE:
            return
        if _kept(states, pair, tokens, chat_id) - held < WORTHWHILE:
            return
        if (saved := states.load(chat_id, pair.state_key)) is not None:
            pair.context.restore(saved)


def copy_to_keep(
    states: KeptStates, pair: Pair, prompt: Sequence[int], chat_id: int
) -> SavedCache | None:
    """What the target's cache holds of `prompt`; None where most of that is kept already."""
    with suppress(OSError):
        tokens = as_tokens(prompt)
        held = common_prefix(tokens, pair.context.tokens)
        if held - _kept(states, pair, tokens, chat_id) >= WORTHWHILE:
            return pair.context.save(tokens)
    return None


def _kept(states: KeptStates, pair: Pair, tokens: Tokens, chat_id: int) -> int:
    """How many of `tokens` are kept of a chat."""
    kept = states.tokens(chat_id, pair.state_key)
    return 0 if kept is None else common_prefix(tokens, kept)
