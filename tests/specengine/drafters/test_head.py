"""A head as drafter: lossless, whatever it says, and cheap to ask again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings

from specengine.control.controller import AdaptiveDraftLength
from specengine.core.events import Finished
from specengine.drafters.head import HeadDrafter
from specengine.loop.generate import generate
from support.drafter_rigs import (
    MODEL,
    PROMPT,
    SAMPLING,
    TEXTS,
    V,
    head_rig,
    histories,
    offered,
    tokens,
)
from support.fake_head import FakeHead, head_beside
from support.fakes import BrokenPassError, FakeKVCache, greedy_continuation


def test_where_it_is_unsure_its_drafts_end_and_the_text_is_still_the_targets_own() -> None:
    made = head_rig()
    assert isinstance(made.drafter, HeadDrafter)
    made.drafter.context.costs.observe(1, 0.001)
    controller = AdaptiveDraftLength(lambda width: 0.3 + 0.04 * width, longest=8)
    *_, finished = generate(made.target, [made.drafter], controller, PROMPT, max_tokens=60)
    assert isinstance(finished, Finished)
    assert list(finished.tokens) == greedy_continuation(MODEL, PROMPT, 60)
    counts = finished.stats.by_drafter["head"]
    assert 0 < counts.accepted <= counts.drafted < 8 * counts.rounds


def test_q_is_what_the_head_says_of_its_tokens() -> None:
    made = head_rig(SAMPLING, masked=2)
    assert isinstance(made.drafter, HeadDrafter)
    made.target.context.logits(PROMPT)
    draft = made.drafter.propose(tokens(PROMPT), 4)
    assert len(draft) == 4
    for token, q in zip(draft.tokens, draft.q, strict=True):
        assert q is not None
        assert token >= 2
        assert q.prob(0) == q.prob(1) == 0
        assert q.probs.sum() == pytest.approx(1)


def test_where_nothing_that_may_come_is_a_token_of_the_head_the_draft_ends() -> None:
    """A logit bias that leaves the ids 0 and 1 masks all that this head could draft."""
    only = SAMPLING.model_copy(update={"logit_bias": {2: -np.inf, 3: -np.inf, 4: -np.inf}})
    made = head_rig(only, masked=2)
    finished = made.run(PROMPT, 3, max_tokens=12)
    assert set(finished.tokens) <= {0, 1}
    assert finished.reason == "length"
    assert finished.notices == ()
    assert finished.stats.drafted == 0


def test_a_head_that_computes_nonsense_costs_its_drafts_only() -> None:
    made = head_rig()
    assert isinstance(made.drafter, HeadDrafter)
    head = made.drafter.context
    original = head.logits
    head.logits = lambda *args: original(*args) * np.float32("nan")  # type: ignore[method-assign]
    finished = made.run(PROMPT, 3, max_tokens=12)
    assert list(finished.tokens) == greedy_continuation(MODEL, PROMPT, 12)
    assert finished.notices == (
        "the drafter head failed (the logit of token 0 is nan: the model file is damaged, "
        "or computed wrongly): continuing without it",
    )


def test_nothing_is_offered_for_a_text_that_the_target_has_not_read() -> None:
    made = head_rig()
    assert offered(made, PROMPT) is None
    made.target.context.logits(PROMPT[:-1])
    offer = offered(made, PROMPT)
    assert offer is not None
    assert offer.kind == "head"
    assert offered(made, PROMPT[:1]) is None


def test_what_a_long_text_costs_first_is_no_cost_of_each_round() -> None:
    made = head_rig()
    assert isinstance(made.drafter, HeadDrafter)
    made.drafter.context.costs.observe(1, 0.25)
    made.drafter.context.costs.observe_prompt(100, 10.0)
    text = [i % V for i in range(60)]
    made.target.context.logits(text)
    first = offered(made, text)
    assert first is not None
    assert first.start_s == pytest.approx(5.8)
    assert first.seconds(3) == pytest.approx(0.75)
    made.drafter.propose(tokens(text), 2)
    then = offered(made, text)
    assert then is not None
    assert then.start_s == 0


@settings(max_examples=150)
@given(histories(shortest=3, drafts=(0, 4)))
# Two draft tokens more of the text were accepted; a draft breaks off, another takes its place.
@example([(TEXTS[0], 12, 3, 0), (TEXTS[0], 13, 1, 0)])
@example([(TEXTS[0], 10, 2, 0), (TEXTS[0], 11, 3, 1), (TEXTS[0], 9, 1, 0)])
def test_any_history_of_texts_and_failures_equals_a_fresh_run(
    history: list[tuple[list[int], int, int, int]],
) -> None:
    target, head = FakeKVCache(MODEL, V), FakeHead(V)
    context, head_context = head_beside(target, head)

    def fail() -> None:
        raise BrokenPassError("broken")

    for whole, length, drafted, breaks in history:
        text = whole[:length]
        drafted = min(drafted, length - 2)
        known = text[: len(text) - drafted]
        context.logits(known)
        if breaks:
            head.before_decode = fail
            with pytest.raises(BrokenPassError):
                head_context.logits(tokens(text), drafted)
            head.before_decode = lambda: None
        else:
            actual = head_context.logits(tokens(text), drafted)
            fresh_context, fresh = head_beside(FakeKVCache(MODEL, V), FakeHead(V))
            fresh_context.logits(known)
            assert np.array_equal(actual, fresh.logits(tokens(text), drafted))
        held = head_context.tokens.tolist()
        assert held[1:] == [token for token, _ in head.rows]
        assert held == text[: len(held)]


def test_a_round_evaluates_the_tokens_that_stood_and_one_row_a_draft_token() -> None:
    made = head_rig()
    assert isinstance(made.drafter, HeadDrafter)
    target, drafter = made.target.context, made.drafter
    target.logits(PROMPT)
    draft = drafter.propose(tokens(PROMPT), 3)
    head = drafter.context._head
    assert isinstance(head, FakeHead)
    assert head.widths == [4, 1, 1, 1]  # 5 rows of the prompt in batches of 4, two steps
    accepted = [*PROMPT, *draft.tokens[:2]]
    target.logits([*PROMPT, *draft.tokens], last=4)
    drafter.propose(tokens([*accepted, 4]), 2)
    assert head.widths[4:] == [3, 1]


def test_shared_noise_drafts_the_same_each_time() -> None:
    drafts = []
    for _ in range(2):
        made = head_rig(SAMPLING.model_copy(update={"seed": 9}), "coupled")
        made.target.context.logits(PROMPT)
        assert made.drafter is not None
        drafts.append(made.drafter.propose(tokens(PROMPT), 6).tokens)
    assert drafts[0] == drafts[1]
