"""How long an answer may become where a server's context is the limit."""

from __future__ import annotations

from specengine.core.errors import ContextFullError


def answer_room(n_prompt: int, n_ctx: int, max_tokens: int | None) -> int:
    """Tokens that may follow a prompt of `n_prompt`, `max_tokens` at most.

    Raises ContextFullError if there is no room for any.
    """
    room = n_ctx - n_prompt
    if room < 1:
        raise ContextFullError(
            f"the prompt of {n_prompt} tokens leaves no room for an answer in the server's "
            f"context of {n_ctx}"
        )
    return room if max_tokens is None else min(max_tokens, room)
