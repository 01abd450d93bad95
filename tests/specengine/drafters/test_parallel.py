"""PARD-style drafts: all tokens from one pass over the text and mask tokens."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.cache.context import Context
from specengine.cache.costs import PassCosts
from specengine.drafters.bridge import Bridge, SameIds, TokenIntersection
from specengine.drafters.parallel import ParallelDrafter
from specengine.drafters.translation import SharedTokens
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from support.drafter_rigs import MASK, PROMPT, SAMPLING, V, parallel_rig, tokens
from support.fakes import FakeKVCache, FakeVocab, markov, scripted
from support.piece_vocab import PieceVocab
from support.rig import GREEDY

PREFIX = tokens(PROMPT)


def drafter(
    cache: FakeKVCache, sampling: SamplingParams = GREEDY, bridge: Bridge | None = None
) -> ParallelDrafter:
    bridge = bridge or SameIds(FakeVocab(V), V)
    rule = make_rule(None, sampling)
    return ParallelDrafter("pard", bridge, MASK, Context(cache), Transforms(sampling), rule)


def test_each_draft_token_is_drawn_from_the_row_of_its_mask_token() -> None:
    model = markov(V, seed=1)
    draft = drafter(FakeKVCache(model, V), SAMPLING).propose(PREFIX, 4)
    assert len(draft) == 4
    for i, q in enumerate(draft.q):
        logits = model([*PROMPT, *[MASK] * i]).astype(np.float64)
        assert q is not None
        assert q.probs == pytest.approx(np.exp(logits) / np.exp(logits).sum())


def test_penalties_see_the_draft_tokens_before() -> None:
    sampling = SAMPLING.model_copy(update={"presence_penalty": 2.0, "repeat_last_n": 3})
    model, transforms = markov(V, seed=2), Transforms(sampling)
    draft = drafter(FakeKVCache(model, V), sampling).propose(PREFIX, 4)
    for i, q in enumerate(draft.q):
        text = np.array([*PROMPT, *draft.tokens[:i]], dtype=np.int32)
        expected = transforms.distribution(model([*PROMPT, *[MASK] * i]), text)
        assert q is not None
        assert q.probs.tolist() == expected.probs.tolist()


def test_a_draft_is_one_pass_over_what_is_new_and_the_masks() -> None:
    says = [4, 2, 1, 3, 3, 0, 2, 4, 1, 0, 2, 3, 1, 4, 0, 2]
    model = scripted(V, says, start=len(PROMPT))
    made = parallel_rig(target=model, draft=model)
    answer = made.run(PROMPT, 3, max_tokens=13)
    assert list(answer.tokens) == says[:13]
    assert answer.stats.acceptance_rate == 1
    # The prompt pass gives the first token. A round commits 4 tokens, the next pass reads those.
    assert made.draft_cache.widths == [len(PROMPT) + 1 + 2, 4 + 2, 4 + 2]
    assert answer.stats.draft_s == pytest.approx(0.003)


def test_the_mask_tokens_of_a_rejected_draft_are_gone() -> None:
    cache = FakeKVCache(markov(V, seed=3), V)
    drafts = drafter(cache)
    drafts.propose(PREFIX, 4)
    assert cache.held == [*PROMPT, MASK, MASK, MASK]
    drafts.propose(np.append(PREFIX, np.int32(1)), 2)
    assert cache.held == [*PROMPT, 1, MASK]
    assert drafts.context.tokens.tolist() == cache.held


def test_its_cost_is_that_of_the_pass() -> None:
    drafts = drafter(FakeKVCache(markov(V, seed=3), V, max_rows=8))
    drafts.propose(PREFIX, 1)
    drafts.context.costs = PassCosts({width: 0.01 * width for width in range(1, 18)})
    offer = drafts.offer(np.append(PREFIX, np.array([1, 2, 4], dtype=np.int32)))
    assert offer is not None
    assert (offer.kind, offer.available, offer.start_s) == ("parallel", 8, 0)
    assert [offer.seconds(k) for k in (1, 2, 8)] == pytest.approx([0.03, 0.04, 0.10])
    long = drafts.offer(np.ones(100, dtype=np.int32))
    assert long is not None
    assert long.start_s == drafts.context.costs.prompt_seconds(99)
    assert long.seconds(2) == pytest.approx(0.02)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("missing", [1, 2, 3])
def test_its_pass_is_as_wide_as_the_one_whose_cost_is_promised(missing: int, k: int) -> None:
    model = markov(V, seed=3)
    cache = FakeKVCache(model, V, max_rows=8)
    drafts = drafter(cache)
    drafts.propose(PREFIX, 1)
    seconds = {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.15, 5: 0.4, 6: 0.5, 7: 0.6, 8: 0.25}
    drafts.context.costs = PassCosts(seconds)
    prefix = np.append(PREFIX, np.ones(missing, dtype=np.int32))
    offer = drafts.offer(prefix)
    assert offer is not None
    promised = offer.seconds(k)
    draft = drafts.propose(prefix, k)
    assert seconds[cache.widths[-1]] == promised <= 0.25
    assert cache.held == [*prefix, *[MASK] * (k - 1)]
    assert draft.tokens == drafter(FakeKVCache(model, V)).propose(prefix, k).tokens


def test_with_shared_noise_drafts_from_the_targets_own_distributions_are_accepted() -> None:
    def by_position(tokens: Sequence[int]) -> NDArray[np.float32]:
        return np.random.default_rng(len(tokens)).standard_normal(V).astype(np.float32)

    sampling = SAMPLING.model_copy(update={"seed": 1})
    answer = parallel_rig(sampling, "coupled", target=by_position, draft=by_position).run(
        PROMPT, 4, max_tokens=31
    )
    assert answer.stats.acceptance_rate == 1
    assert len(set(answer.tokens)) > 2


def test_the_masks_of_another_vocabulary_are_the_draft_models() -> None:
    target = PieceVocab([b"a", b"b", b"c", b"ab"])
    draft = PieceVocab([b"c", b"ba", b"b", b"a", b"ca"], ["<mask>"])
    favourite = np.array([1, 9, 2, 3, 9, 9], dtype=np.float32)
    cache = FakeKVCache(lambda tokens: favourite, draft.size)
    bridge = TokenIntersection(target, draft, SharedTokens(target, draft))
    proposal = drafter(cache, bridge=bridge).propose(np.array([0, 1], dtype=np.int32), 3)
    assert proposal.tokens == [0, 0, 0]
    assert cache.held == [3, 2, MASK, MASK]
