"""What one pass of the target can verify."""

from __future__ import annotations

import numpy as np

from specengine.cache.context import Context
from specengine.core.draft import Draft
from specengine.loop.target import LocalTarget
from specengine.rules import make_rule
from specengine.sampling import Transforms
from support.fakes import FakeKVCache, FakeVocab, greedy_continuation, markov
from support.rig import GREEDY

MODEL = markov(8, seed=7)


def test_the_longest_draft_and_the_token_after_it_fit_into_one_pass() -> None:
    cache = FakeKVCache(MODEL, 8, max_rows=4)
    rule = make_rule(None, GREEDY)
    target = LocalTarget(FakeVocab(8), Context(cache), Transforms(GREEDY), rule)
    assert target.max_draft == 3
    *draft, bonus = greedy_continuation(MODEL, [1, 2, 3], 4)
    verdict = target.verify(np.array([1, 2, 3], dtype=np.int32), Draft(draft, [None] * 3))
    assert (verdict.accepted, verdict.token) == (3, bonus)
    assert cache.passes == 1
