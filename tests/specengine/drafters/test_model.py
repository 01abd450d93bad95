"""What a draft model's offers promise, beside what its passes then are."""

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.cache.costs import PROMPT, PassCosts
from specengine.core.drafter import Offer
from specengine.drafters.bridge import SameIds
from specengine.drafters.model import ModelDrafter
from specengine.rules import make_rule
from specengine.sampling import Transforms
from support.fakes import FakeKVCache, FakeVocab, markov
from support.rig import GREEDY

N_VOCAB = 5
READ = 10  # tokens of the text that the draft model has read


@pytest.fixture
def cache() -> FakeKVCache:
    return FakeKVCache(markov(N_VOCAB, seed=1), N_VOCAB, max_rows=1)


def drafter(cache: FakeKVCache, costs: dict[int, float], width_step: int = 1) -> ModelDrafter:
    context = Context(cache, width_step=width_step)
    made = ModelDrafter(
        "m",
        SameIds(FakeVocab(N_VOCAB), N_VOCAB),
        context,
        Transforms(GREEDY),
        make_rule(None, GREEDY),
    )
    context.logits(np.ones(READ, dtype=np.int32))
    context.costs = PassCosts(costs)
    return made


def offered(made: ModelDrafter, missing: int) -> Offer:
    offer = made.offer(np.ones(READ + missing, dtype=np.int32))
    assert offer is not None
    assert not offer.is_free
    return offer


def test_a_gap_is_paid_in_its_round_and_a_prompt_over_many(cache: FakeKVCache) -> None:
    made = drafter(cache, {1: 0.10, 2: 0.13})
    made.context.costs.observe_prompt(100, 1.0)
    assert (offered(made, 1).start_s, offered(made, 1).seconds(3)) == pytest.approx((0, 0.30))
    assert (offered(made, 2).start_s, offered(made, 2).seconds(3)) == pytest.approx((0, 0.33))
    assert (offered(made, 17).start_s, offered(made, 17).seconds(3)) == pytest.approx((0, 0.37))
    unread = offered(made, PROMPT)
    assert (unread.start_s, unread.seconds(3)) == pytest.approx((0.22, 0.30))


def test_a_longer_gap_never_promises_more_drafts_a_second(cache: FakeKVCache) -> None:
    made = drafter(cache, {1: 0.10, 2: 0.13})
    made.context.costs.observe_prompt(100, 1.0)
    seconds = [o.start_s + o.seconds(4) for n in range(1, 100) for o in [offered(made, n)]]
    assert seconds == sorted(seconds)


def test_a_draft_token_costs_what_its_pass_costs_whatever_wider_ones_do(
    cache: FakeKVCache,
) -> None:
    made = drafter(cache, {1: 0.30, 2: 0.10})
    assert offered(made, 1).seconds(2) == pytest.approx(0.60)
    made.propose(np.ones(READ + 1, dtype=np.int32), 2)
    assert cache.widths == [READ, 1, 1]


def test_where_passes_are_padded_a_gap_that_is_padded_away_costs_nothing(
    cache: FakeKVCache,
) -> None:
    made = drafter(cache, {1: 0.10, 2: 0.13, 8: 0.20, 16: 0.28}, width_step=8)
    assert [offered(made, n).seconds(1) for n in (1, 8, 9)] == pytest.approx([0.20, 0.20, 0.28])
    made.context.costs.observe_prompt(16, 0.80)
    assert offered(made, 8).seconds(1) == pytest.approx(0.20)
    assert offered(made, 9).seconds(1) > 0.60
    made.propose(np.ones(READ + 8, dtype=np.int32), 1)
    assert cache.widths == [16, 8]
