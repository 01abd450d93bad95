"""Whatever drafts, and however well, the text is the target's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from support.drafter_rigs import PROMPT, SAMPLING, block_rig, head_rig, other_rig, parallel_rig
from support.fakes import greedy_continuation
from support.rig import Rig
from support.text_law import Text, law_of_texts, p_value

DRAFTERS = pytest.mark.parametrize(
    "make",
    [
        pytest.param(head_rig, id="head"),
        pytest.param(block_rig, id="block"),
        pytest.param(partial(block_rig, follows=True), id="block along a path"),
        pytest.param(parallel_rig, id="parallel"),
        pytest.param(partial(other_rig, "tokens"), id="shared tokens"),
        pytest.param(partial(other_rig, "text"), id="text"),
    ],
)


@DRAFTERS
@pytest.mark.parametrize("k", [1, 2, 7])
def test_greedy_text_is_the_targets_own(make: Callable[..., Rig], k: int) -> None:
    made = make()
    finished = made.run(PROMPT, k, max_tokens=60)
    assert list(finished.tokens) == greedy_continuation(made.model, PROMPT, 60)
    assert 0 < finished.stats.accepted < finished.stats.drafted


@DRAFTERS
@pytest.mark.parametrize("rule", ["block", "coupled"])
def test_sampled_texts_are_distributed_as_the_targets_own(
    make: Callable[..., Rig], rule: str
) -> None:
    # The first token comes with the prompt, the next two from a draft of two.
    counts: Counter[Text] = Counter()
    accepted = 0
    sampling = SAMPLING.model_copy(update={"presence_penalty": 1.0})
    for seed in range(400):
        made = make(sampling.model_copy(update={"seed": seed}), rule)
        answer = made.run(PROMPT, 2, max_tokens=4)
        counts[answer.tokens[:3]] += 1
        accepted += answer.stats.accepted
    assert p_value(counts, law_of_texts(made.model, PROMPT, 3, sampling)) > 0.001
    assert accepted > 50


@DRAFTERS
def test_a_chat_that_outgrows_the_context_goes_on_with_a_notice(make: Callable[..., Rig]) -> None:
    made = make(n_ctx=16)
    finished = made.run(PROMPT, 3, max_tokens=30)
    assert list(finished.tokens) == greedy_continuation(made.model, PROMPT, 30)
    assert finished.stats.drafted > 0
    (notice,) = finished.notices
    assert notice.startswith("this chat is longer than the context of the ")
    assert notice.endswith(" (16 tokens): continuing without its drafts")
