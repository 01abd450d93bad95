"""How many hints of each session enter a pass: whatever promises the most tokens a second."""

from __future__ import annotations

from collections.abc import Sequence

from specengine.cache.costs import PassCosts


def padded(n_tokens: int, step: int) -> int:
    """Tokens that a session brings to a pass for `n_tokens` of its own: a multiple of `step`."""
    return n_tokens + -n_tokens % step


def allocate(
    chances: Sequence[Sequence[float]],
    costs: PassCosts,
    *,
    step: int,
    max_rows: int,
    others: int = 0,
) -> list[int]:
    """Hints for each session.

    `chances[s][i]`: that the first i + 1 hints of session s are all accepted. `others`: tokens that
    are in the pass anyway. A session brings its last committed token and its hints, padded to a
    multiple of `step`; `max_rows` of all sessions at most. The hints that fit into the padding are
    free; then come the most promising ones, as many as make the most expected tokens a second.
    """
    counts = [min(len(own), step - 1) for own in chances]
    rows = len(chances) * step
    tokens = len(chances) + sum(sum(own[:n]) for own, n in zip(chances, counts, strict=True))
    # Hints come in groups that fill their rows. A session's chances fall, so its groups keep their
    # order.
    groups = [
        (session, own[start : start + step])
        for session, own in enumerate(chances)
        for start in range(counts[session], len(own), step)
    ]
    groups.sort(key=lambda group: -sum(group[1]))
    del groups[max(0, (max_rows - rows) // step) :]
    best, best_rate = 0, tokens / costs.seconds(max(1, others + rows))
    for n, (_, group) in enumerate(groups, start=1):
        tokens += sum(group)
        rate = tokens / costs.seconds(others + rows + n * step)
        if rate > best_rate:
            best, best_rate = n, rate
    for session, group in groups[:best]:
        counts[session] += len(group)
    return counts
