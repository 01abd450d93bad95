"""Makes a conversation fit the context, where what is oldest leaves first, and the template."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from specengine.chat.chat_template import Turn
from specengine.core.errors import ContextFullError
from specengine.core.tokens import as_tokens, common_prefix

_UNSETTLED = 2  # of the last tokens, which the next letters may change


def fit_turns(
    turns: Sequence[Turn], n_tokens_of: Callable[[Sequence[Turn]], int], budget: int
) -> tuple[list[Turn], int]:
    """The turns that fit `budget` tokens, and how many were left out.

    Whole exchanges leave, a question together with its answer, the oldest first. System turns and
    the newest exchange stay. Half the budget leaves at once, whenever it is full: in between, each
    prompt begins with the one before, and the KV cache holds that. `n_tokens_of` encodes turns and
    counts. Raises ContextFullError where even the newest exchange is too long.
    """
    exchanges = _exchanges(turns)
    total = n_tokens_of(turns)
    excess = total - budget
    if excess <= 0:
        return list(turns), 0

    def without(n: int) -> list[Turn]:
        left_out = {i for exchange in exchanges[:n] for i in exchange}
        return [turn for i, turn in enumerate(turns) if i not in left_out]

    most = max(len(exchanges) - 1, 0)

    def fewest(n_tokens: int) -> int:
        """How many exchanges have so many tokens; more than may leave where even those have not."""
        return 1 + bisect.bisect_left(
            range(1, most + 1), n_tokens, key=lambda n: total - n_tokens_of(without(n))
        )

    half = max(budget // 2, 1)
    n = fewest(-(-excess // half) * half)
    if n > most:
        n = fewest(excess)
    if n > most:
        raise ContextFullError(
            f"the last message needs {n_tokens_of(without(most))} tokens with what must stand "
            f"before it, and the context has room for {budget}: shorten it, or raise --ctx if the "
            "model takes more"
        )
    kept = without(n)
    return kept, len(turns) - len(kept)


def stable_beginning(
    turns: Sequence[Turn], typed: str, encode: Callable[[Sequence[Turn]], Sequence[int]]
) -> Sequence[int]:
    """The ids that a prompt will begin with when the question that is being typed after `turns` is
    asked, as far as they do not depend on what is typed after `typed`. Raises what `encode` raises.
    """
    one, other = (encode([*turns, Turn("user", typed + ending)]) for ending in ("a", "1"))
    settled = common_prefix(as_tokens(one), as_tokens(other)) - _UNSETTLED
    return one[: max(0, settled)]


def alternating(turns: Sequence[Turn]) -> list[Turn]:
    """`turns` as templates want them: neighbours of one role, as questions that were never
    answered, become one.
    """
    result: list[Turn] = []
    for turn in turns:
        if result and result[-1].role == turn.role:
            result[-1] = Turn(turn.role, f"{result[-1].text}\n\n{turn.text}")
        else:
            result.append(turn)
    return result


def _exchanges(turns: Sequence[Turn]) -> list[list[int]]:
    """Positions of each user turn and of the answers up to the next one; system turns in none."""
    exchanges: list[list[int]] = []
    for i, turn in enumerate(turns):
        if turn.role == "user" or (turn.role == "assistant" and not exchanges):
            exchanges.append([i])
        elif turn.role == "assistant":
            exchanges[-1].append(i)
    return exchanges
