"""The inspector of a round: what it reports is what the rule computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.core.events import Finished
from specengine.loop.inspection import InspectedRound, Inspector
from specengine.rules import make_rule
from specengine.rules.sampled import SampledRule
from specengine.sampling import SamplingParams, Transforms
from support.fakes import FakeVocab, markov
from support.rig import Rig

TARGET, OTHER = markov(8, seed=7), markov(8, seed=9)
SAMPLED = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, seed=3)
RULES = pytest.mark.parametrize("rule", ["token", "block", "coupled", "typical", "greedy"])


def drafter(tokens: Sequence[int]) -> NDArray[np.float32]:
    """Of two minds: some of its drafts are accepted, some are not."""
    return 0.5 * TARGET(tokens) + 0.3 * OTHER(tokens)


def distribution(*probs: float) -> Distribution:
    return Distribution(np.arange(len(probs), dtype=np.int32), np.array(probs))


def inspected(
    rule_name: str, draws: list[float], draft: Draft, *p: Distribution
) -> tuple[Verdict, InspectedRound]:
    """A round of `rule_name` where the uniform draws fall as in `draws`."""
    rounds: list[InspectedRound] = []
    rule = make_rule(rule_name, SAMPLED)
    assert isinstance(rule, SampledRule)
    source: Iterator[float] = iter(draws)
    rule._uniform = source.__next__  # type: ignore[assignment]
    verdict = Inspector(FakeVocab(8, eog=[2]), rounds.append).verify(
        rule, draft, lambda i: p[i], position=10
    )
    return verdict, rounds[0]


def test_a_rejection_shows_the_draw_and_the_residual() -> None:
    p, q = distribution(0.3, 0.6, 0.1), distribution(0.8, 0.15, 0.05)
    verdict, seen = inspected("token", [0.4, 0.5], Draft([0, 1], [q, q]), p)
    assert verdict == Verdict(0, 1)
    first, second = seen.draft
    assert (first.token, first.text, first.q, first.p) == (0, "a", 0.8, 0.3)
    assert first.ratio == first.limit == pytest.approx(0.375)
    assert (first.draw, first.accepted) == (0.4, False)
    assert (second.p, second.ratio, second.draw, second.limit) == (None, None, None, None)
    # (p - q)+ = .45 and .05, normalised; token 2 ends an answer and shows as its name.
    assert [(e.token, e.text) for e in seen.source] == [(1, "b"), (2, "<2>")]
    assert [e.prob for e in seen.source] == pytest.approx([0.9, 0.1])
    assert seen.token == seen.source[0]
    assert seen.is_correction
    assert seen.from_residual
    assert (seen.position, seen.rule, seen.accepted) == (10, "token", 0)


def test_a_bonus_comes_from_p_after_the_last_draft_token() -> None:
    p, q = distribution(0.3, 0.7), distribution(0.8, 0.2)
    verdict, seen = inspected("token", [0.3, 0.99], Draft([0], [q]), p, distribution(0.9, 0.1))
    assert verdict == Verdict(1, 1)
    assert not seen.is_correction
    assert not seen.from_residual
    assert [(e.token, e.prob) for e in seen.source] == [(0, 0.9), (1, 0.1)]
    assert (seen.token.token, seen.token.prob) == (1, 0.1)


def test_block_shows_its_own_limits_and_residual() -> None:
    p, q = distribution(0.3, 0.6, 0.1), distribution(0.8, 0.15, 0.05)
    # P_1 = .375 and S_1 = .375 * .6 - .15 = .075, so h_1 = .075 / (.075 + .625); P_2 = P_1 * .375.
    # One token is accepted, and all of (P_1 p - q)+ is on token 1; of (p - q)+ some is on token 2.
    draft = Draft([0, 0], [q, q])
    verdict, seen = inspected("block", [0.1, 0.5, 0.9], draft, p, p)
    assert verdict == Verdict(1, 1)
    assert [t.limit for t in seen.draft] == pytest.approx([0.075 / 0.7, 0.375 * 0.375])
    assert [t.draw for t in seen.draft] == [0.1, 0.5]
    assert [t.accepted for t in seen.draft] == [True, False]
    assert [(e.token, e.prob) for e in seen.source] == [(1, 1.0)]
    assert seen.draft[0].ratio == pytest.approx(0.375)


def test_a_deterministic_draft_was_drawn_from_its_point_mass() -> None:
    p = distribution(0.3, 0.6, 0.1)
    _, seen = inspected("token", [0.7, 0.99], Draft([1], [None]), p)
    assert (seen.draft[0].q, seen.draft[0].ratio) == (1.0, 0.6)
    assert [e.token for e in seen.source] == [0, 2]
    assert [e.prob for e in seen.source] == pytest.approx([0.75, 0.25])


def test_a_certain_outcome_needs_no_draw() -> None:
    p = distribution(0.5, 0.5)
    _, seen = inspected("block", [0.2, 0.9], Draft([0, 1], [p, p]), p, p, p)
    assert [(t.draw, t.limit, t.accepted) for t in seen.draft] == [(None, 1, True)] * 2


def answer(rule: str, on_round: Callable[[InspectedRound], None] | None) -> tuple[Finished, Rig]:
    sampling = SamplingParams(temperature=0) if rule == "greedy" else SAMPLED
    rig = Rig(TARGET, draft=drafter, rule=rule, sampling=sampling, on_round=on_round)
    return rig.run([1, 2, 3], 4, max_tokens=60), rig


@RULES
def test_the_rounds_of_an_answer_add_up_to_it(rule: str) -> None:
    rounds: list[InspectedRound] = []
    finished, _ = answer(rule, rounds.append)
    tokens: list[int] = []
    for seen in rounds:
        assert seen.position == 3 + len(tokens)
        assert seen.is_correction == (seen.accepted < len(seen.draft))
        tokens += [token.token for token in seen.draft[: seen.accepted]]
        tokens.append(seen.token.token)
        assert seen.token.prob > 0
        assert sum(entry.prob for entry in seen.source) == pytest.approx(1)
    assert tuple(tokens) == finished.tokens
    assert sum(seen.accepted for seen in rounds) == finished.stats.accepted > 0
    assert sum(seen.is_correction for seen in rounds) == finished.stats.corrected > 0


@pytest.mark.parametrize("rule", ["token", "block"])
def test_the_draws_decide(rule: str) -> None:
    rounds: list[InspectedRound] = []
    answer(rule, rounds.append)
    for seen in rounds:
        below = [t.limit is not None and (t.draw or 0) < t.limit for t in seen.draft]
        if rule == "token":
            accepted = below.index(False) if False in below else len(below)
        else:
            accepted = max((i + 1 for i, is_below in enumerate(below) if is_below), default=0)
        assert seen.accepted == accepted


@RULES
def test_looking_changes_nothing_and_computes_nothing_twice(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    real = Transforms.distribution

    def counting(*args: object) -> Distribution:
        nonlocal asked
        asked += 1
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Transforms, "distribution", counting)
    unseen, _ = answer(rule, None)
    asked_unseen, asked = asked, 0
    rounds: list[InspectedRound] = []
    seen, _ = answer(rule, rounds.append)
    assert seen.tokens == unseen.tokens
    assert asked == asked_unseen


def test_nothing_is_noted_when_nobody_looks() -> None:
    rounds: list[InspectedRound] = []
    rule = make_rule("token", SAMPLED)
    p = distribution(0.5, 0.5)
    Inspector(FakeVocab(8), rounds.append).verify(rule, Draft([0], [p]), lambda i: p, 0)
    assert isinstance(rule, SampledRule)
    assert rule.draws is None
