"""How many hints of each session enter a pass: whatever promises the most tokens a second."""

from __future__ import annotations

from collections.abc import Sequence

from specengine.costs import PassCosts

MIN_WIDTH = 2  # tokens that each session brings to a pass: narrower parts would round differently


def width(n_hints: int) -> int:
    """Tokens of a session in a pass: the last committed one and its hints, padded."""
    return max(MIN_WIDTH, 1 + n_hints)


def allocate(
    chances: Sequence[Sequence[float]], costs: PassCosts, *, max_rows: int, others: int = 0
) -> list[int]:
    """Hints for each session.

    `chances[s][i]`: that the first i + 1 hints of session s all stand. `others`: tokens that are
    in the pass anyway. The hints that fit into the padding are free; then come the most promising
    ones, as many as make the most expected tokens a second.
    """
    counts = [min(len(own), MIN_WIDTH - 1) for own in chances]
    rows = others + sum(width(n) for n in counts)
    tokens = len(chances) + sum(sum(own[:n]) for own, n in zip(chances, counts, strict=True))
    further = sorted(
        (
            (chance, session)
            for session, own in enumerate(chances)
            for chance in own[counts[session] :]
        ),
        key=lambda candidate: -candidate[0],
    )[: max(0, max_rows - rows)]
    best, best_rate = 0, tokens / costs.seconds(max(1, rows))
    for n, (chance, _) in enumerate(further, start=1):
        tokens += chance
        rate = tokens / costs.seconds(rows + n)
        if rate > best_rate:
            best, best_rate = n, rate
    for _, session in further[:best]:
        counts[session] += 1
    return counts
