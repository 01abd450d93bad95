"""A block head as drafter: lossless, whatever it says, and cheap to ask again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from specengine.cache.costs import PassCosts
from specengine.drafters.block import BlockDrafter
from support.drafter_rigs import (
    MODEL,
    PROMPT,
    V,
    block_rig,
    histories,
    offered,
    tokens,
)
from support.fake_block_head import FakeBlockHead, blocks_beside
from support.fakes import BrokenPassError, FakeKVCache


def test_nothing_is_offered_for_a_text_that_the_target_has_not_read() -> None:
    made = block_rig()
    assert offered(made, PROMPT) is None
    made.target.context.logits(PROMPT[:-1])
    offer = offered(made, PROMPT)
    assert offer is not None
    assert (offer.kind, offer.available) == ("parallel", 6)


def test_a_draft_costs_what_its_block_costs_and_a_long_text_more_at_first() -> None:
    made = block_rig()
    assert isinstance(made.drafter, BlockDrafter)
    costs = made.drafter.context.costs = PassCosts({k: 0.1 + 0.01 * k for k in range(1, 18)})
    costs.observe_prompt(100, 10.0)
    text = [i % V for i in range(60)]
    made.target.context.logits(text)
    first = offered(made, text)
    assert first is not None
    assert first.start_s == pytest.approx(5.9)
    assert [first.seconds(k) for k in (1, 6)] == pytest.approx([0.11, 0.16])
    made.drafter.propose(tokens(text), 2)
    made.target.context.logits([*text, 1, 2])
    then = offered(made, [*text, 1, 2])
    assert then is not None
    assert then.start_s == 0


@settings(max_examples=100)
@given(histories(shortest=1, drafts=(1, 6)))
def test_any_history_of_texts_and_failures_equals_a_fresh_run(
    history: list[tuple[list[int], int, int, int]],
) -> None:
    target, head = FakeKVCache(MODEL, V), FakeBlockHead(V)
    context, blocks = blocks_beside(target, head)

    def fail() -> None:
        raise BrokenPassError("broken")

    for whole, length, k, breaks in history:
        text = whole[:length]
        context.logits(text)
        if breaks:
            head.before_pass = fail
            with pytest.raises(BrokenPassError):
                blocks.draft(tokens(text), k)
            head.before_pass = lambda: None
            continue
        actual = blocks.draft(tokens(text), k)
        fresh_context, fresh = blocks_beside(FakeKVCache(MODEL, V), FakeBlockHead(V))
        fresh_context.logits(text)
        expected = fresh.draft(tokens(text), k)
        assert np.array_equal(actual.row([1]), expected.row([1]))
