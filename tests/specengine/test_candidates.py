from __future__ import annotations

import numpy as np
import pytest

from specengine.candidates import verify_candidates
from specengine.context import Context
from specengine.errors import BackendError, ContextFullError, SamplingError
from specengine.sampling import SamplingParams
from support.fakes import FakeKVCache, greedy_continuation, markov
from support.smollm import SmolLM

V = 8
MODEL = markov(V, seed=7)
PREFIX = [1, 2, 3]
OWN = greedy_continuation(MODEL, PREFIX, 40)


def fake(**options: int) -> tuple[Context, FakeKVCache]:
    cache = FakeKVCache(MODEL, V, **options)
    return Context(cache), cache


@pytest.mark.parametrize("n_right", range(6))
def test_the_leading_candidates_that_are_the_targets_own_stand(n_right: int) -> None:
    context, cache = fake()
    candidates = OWN[:n_right] + [(token + 1) % V for token in OWN[n_right:5]]
    report = verify_candidates(context, PREFIX, candidates)
    assert (report.accepted, report.next_token) == (n_right, OWN[n_right])
    assert cache.passes == 1


def test_each_prediction_is_of_its_own_position() -> None:
    context, _ = fake()
    candidates = [*OWN[:2], (OWN[2] + 1) % V, 0]
    report = verify_candidates(context, PREFIX, candidates, top=3)
    assert [p.token for p in report.predictions] == candidates
    for i, prediction in enumerate(report.predictions):
        row = MODEL([*PREFIX, *candidates[:i]]).astype(float)
        logprobs = row - np.log(np.exp(row).sum())
        assert prediction.logprob == pytest.approx(logprobs[candidates[i]])
        assert [token for token, _ in prediction.top] == (-row).argsort()[:3].tolist()


def test_where_all_stand_the_last_prediction_is_of_the_next_token() -> None:
    report = verify_candidates(fake()[0], PREFIX, OWN[:4])
    assert [p.token for p in report.predictions] == OWN[:5]


def test_more_candidates_than_a_pass_has_rows() -> None:
    context, cache = fake(max_rows=8)
    for n in (7, 8, 16, 20, 39):
        context.forget()
        passes = cache.passes
        report = verify_candidates(context, PREFIX, OWN[:n])
        assert (report.accepted, report.next_token) == (n, OWN[n])
        assert cache.passes - passes == -(-(n + 1) // 8)


def test_the_prefix_is_evaluated_once_for_many_candidates() -> None:
    context, cache = fake()
    prefix = [i % V for i in range(50)]
    for candidates in ([1, 2, 3], [2, 2, 2], [5]):
        verify_candidates(context, prefix, candidates)
    assert cache.widths == [53, 4, 2]


def test_no_candidates_at_all_give_the_next_token() -> None:
    report = verify_candidates(fake()[0], PREFIX, [])
    assert (report.accepted, report.next_token) == (0, OWN[0])
    assert len(report.predictions) == 1


def test_with_a_temperature_a_candidate_stands_with_its_probability() -> None:
    context, _ = fake()
    row = MODEL(PREFIX).astype(float) / 3
    candidate = int(np.argsort(row)[-2])
    prob = float(np.exp(row[candidate]) / np.exp(row).sum())
    plain = {"temperature": 3, "top_k": 0, "top_p": 1, "min_p": 0}
    stood = [
        verify_candidates(
            context,
            PREFIX,
            [candidate],
            sampling=SamplingParams.checked(**plain, seed=seed),
            rule="token",
        ).accepted
        for seed in range(400)
    ]
    assert 0.1 < prob < 0.9
    assert abs(np.mean(stood) - prob) < 3 * (prob * (1 - prob) / 400) ** 0.5


def test_what_cannot_be_verified_is_named() -> None:
    context, _ = fake(n_ctx=16)
    with pytest.raises(ContextFullError, match="the prefix is empty"):
        verify_candidates(context, [], [1])
    with pytest.raises(ContextFullError, match="17 tokens do not fit into a context of 16"):
        verify_candidates(context, PREFIX, [1] * 14)
    with pytest.raises(BackendError, match="token id 8 is outside the vocabulary"):
        verify_candidates(context, PREFIX, [V])
    with pytest.raises(SamplingError, match="greedy"):
        verify_candidates(
            context, PREFIX, [1], sampling=SamplingParams(temperature=1), rule="greedy"
        )


def test_a_real_target_agrees_with_what_it_would_have_said(smollm: SmolLM) -> None:
    vocab = smollm.model.vocab
    prefix = vocab.tokenize("The capital of France is")
    right = verify_candidates(smollm.context, prefix, vocab.tokenize(" Paris"))
    wrong = verify_candidates(smollm.context, prefix, vocab.tokenize(" London"))
    assert right.accepted == 1
    assert wrong.accepted == 0
    assert vocab.piece(wrong.next_token) == b" Paris"
    assert wrong.predictions[0].logprob < right.predictions[0].logprob
