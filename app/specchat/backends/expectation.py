"""How much faster a server's text comes with drafts made here: an estimate, before any trial."""

from __future__ import annotations

import math
from collections.abc import Callable

# The share of draft tokens that are accepted if all before them were: of a draft model of the
# target's family, and of copied passages.
TYPICAL_MODEL, TYPICAL_LOOKUP = 0.7, 0.8


def expected_gain(
    round_trip_s: float,
    pass_s: Callable[[int], float],
    draft_s: float,
    acceptance: float,
    max_draft: int,
) -> float:
    """Tokens a second with drafts over those of the target alone, 1 if drafts cannot help.

    `pass_s(n)`: seconds of a target pass over n tokens; `draft_s`: of a draft token;
    `acceptance` < 1. With v = `pass_s`, d = `draft_s`, a = `acceptance`:

    After a wrong draft token the target goes on by itself, while the correction travels down and
    new hints travel up. They catch up with it after m tokens, the first for which the round trip
    and the drafting of one token more take no longer than the target's own m passes:

        m = ceil((round trip + d) / (v(1) - d))

    The draft has to guess these m tokens rightly, too: a share s = a^m of all tokens comes from
    passes with hints, each of them in f seconds, what the best draft length allows, and no faster
    than they are drafted:

        f = max(d, min over k of v(k+1) / (1 + a + … + a^k)),   gain = 1 / (1 - s + s f / v(1))

    Checked against the simulation of `bench/remote/simulation.py`, which knows chance.
    """
    plain_s = pass_s(1)
    if draft_s >= plain_s:
        return 1.0
    ahead = math.ceil((round_trip_s + draft_s) / (plain_s - draft_s))
    share = acceptance**ahead
    per_token = [
        pass_s(k + 1) / sum(acceptance**i for i in range(k + 1)) for k in range(max_draft + 1)
    ]
    fast_s = max(draft_s, min(per_token))
    return max(1.0, 1 / (1 - share + share * fast_s / plain_s))
