"""Draft models of another vocabulary: as tokens that both have, and as text."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.drafters.text import TextDrafter
from support.drafter_rigs import (
    DRAFT_VOCAB,
    PROMPT,
    SAMPLING,
    TARGET_VOCAB,
    other_rig,
    tokens,
)
from support.fakes import Model
from support.piece_vocab import PieceVocab


def spelled(text: bytes, vocab: PieceVocab, *, after: int) -> Model:
    """Says `text` after a prefix of so many bytes, in the longest tokens; then ends."""

    def model(tokens: Sequence[int]) -> NDArray[np.float32]:
        logits = np.zeros(vocab.size, dtype=np.float32)
        said = len(vocab.text(tokens)) - after
        rest = vocab.tokenize(text[said:].decode())
        logits[rest[0] if rest else vocab.eos] = 9.0
        return logits

    return model


def test_text_that_the_draft_model_would_write_alike_is_accepted_whole() -> None:
    text = b"abcbcaabcabbcbbcaabc"
    after = len(TARGET_VOCAB.text(PROMPT))
    target, draft = (spelled(text, v, after=after) for v in (TARGET_VOCAB, DRAFT_VOCAB))
    finished = other_rig("text", target=target, draft=draft).run(PROMPT, 3, max_tokens=50)
    assert finished.text == text.decode()
    assert finished.reason == "stop"  # the draft model's end is the target's
    assert finished.stats.acceptance_rate is not None
    assert finished.stats.acceptance_rate > 0.8
    assert finished.stats.corrected <= 3


def test_what_a_token_costs_as_text_follows_the_steps_that_it_really_took() -> None:
    says_c = np.zeros(DRAFT_VOCAB.size, dtype=np.float32)
    says_c[0] = 9.0  # a token of both: one step for each token of the target
    drafts = other_rig("text", draft=lambda tokens: says_c).drafter
    assert isinstance(drafts, TextDrafter)
    prefix = tokens(PROMPT)
    drafts.propose(prefix, 1)
    at_first = drafts.token_s
    for _ in range(100):
        assert drafts.propose(prefix, 8).tokens == [2] * 8
    step_s = drafts.context.costs.seconds(1)
    assert drafts.token_s < at_first
    assert drafts.token_s == pytest.approx(step_s, rel=0.02)


def test_what_takes_more_than_two_steps_a_token_is_proposed_as_far_as_it_goes() -> None:
    def says_abc(read: Sequence[int]) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = np.eye(DRAFT_VOCAB.size, dtype=np.float32)[
            [3, 2, 0][len(read) % 3]
        ]
        return logits

    drafts = other_rig("text", draft=says_abc).drafter
    assert isinstance(drafts, TextDrafter)
    prefix = tokens([0, 1, 2])
    assert len(drafts.read(prefix)) % 3 == 0
    assert drafts.propose(prefix, 3).tokens == [5, 5]  # six steps, two tokens "abc"


def test_as_tokens_only_what_both_have_is_drafted() -> None:
    favourite = np.zeros(DRAFT_VOCAB.size, dtype=np.float32)
    favourite[1] = 9.0  # "ba", which the target lacks
    favourite[5] = 5.0  # "bc"
    drafts = other_rig("tokens", SAMPLING, draft=lambda tokens: favourite).drafter
    assert drafts is not None
    proposal = drafts.propose(tokens(PROMPT), 3)
    shared = [0, 1, 2, 4, TARGET_VOCAB.control["<end>"]]  # a, b, c, bc in the target's ids
    assert set(proposal.tokens) <= set(shared)
    q = proposal.q[0]
    assert q is not None
    expected = np.exp([0, 0, 0, 5, 0]) / (4 + np.exp(5))
    assert q.probs_of(np.array(shared, dtype=np.int32)) == pytest.approx(expected)
    assert q.probs.sum() == pytest.approx(1)
