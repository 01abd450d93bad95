"""The sampling check lets sound rules pass and catches the known wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from specengine.cache.context import Context
from specengine.checks import sampling_check
from specengine.checks.sampling_check import Branches, check_rule, evaluate, play
from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Verdict
from specengine.drafters.bridge import SameIds
from specengine.drafters.lookup import LookupDrafter
from specengine.drafters.model import ModelDrafter
from specengine.rules import block, make_rule, token
from specengine.sampling import SamplingParams, Transforms
from support.fakes import FakeKVCache, FakeVocab, markov

DRAWS = 4000
LIMIT = 1e-4
PLAIN = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
RULES = pytest.mark.parametrize("name", ["token", "block", "coupled"])


def distribution(rng: np.random.Generator, ids: range) -> Distribution:
    return Distribution(np.array(ids, dtype=np.int32), rng.dirichlet(np.ones(len(ids))))


def branches(seed: int, *, deterministic: bool = False) -> Branches:
    """The drafter knows a token that the target excludes, and the reverse."""
    rng = np.random.default_rng(seed)
    texts = [(), *((x,) for x in range(6))]
    target = {text: distribution(rng, range(5)) for text in texts}
    drafter = {text: distribution(rng, range(1, 6)) for text in texts}
    if deterministic:
        return Branches(target, {text: q.argmax() for text, q in drafter.items()})
    return Branches(target, dict(drafter))


def p_values(name: str, **options: bool) -> list[float]:
    return [
        check_rule(
            make_rule(name, SamplingParams.checked(**PLAIN, seed=seed)),
            branches(seed, **options),
            DRAWS,
        ).p_value
        for seed in range(6)
    ]


@RULES
@pytest.mark.parametrize("deterministic", [False, True])
def test_sound_rules_pass(name: str, deterministic: bool) -> None:
    assert min(p_values(name, deterministic=deterministic)) > LIMIT


@pytest.mark.parametrize(("module", "name"), [(token, "token"), (block, "block")])
def test_wrong_corrections_are_caught(
    module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "sample_residual", lambda rest, p, u: p.sample(u))
    assert max(p_values(name)) < LIMIT


def test_a_rule_that_takes_what_the_target_excludes_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token, "drawn_from", lambda draft, i, p: Distribution.point(-1))
    assert p_values("token") == [0] * 6


def test_typical_acceptance_is_caught() -> None:
    assert max(p_values("typical")) < LIMIT


def test_noise_is_new_for_every_text() -> None:
    rule = make_rule("coupled", SamplingParams.checked(**PLAIN, seed=1))
    texts = {play(rule, branches(1), position) for position in range(0, 400, 4)}
    assert len(texts) > 10


def test_no_two_texts_share_any_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = make_rule("coupled", SamplingParams.checked(**PLAIN, seed=1))
    drawn: list[set[int]] = []

    class Watched:
        """Each of its draws takes the noise of one position."""

        def draw(self, q: Distribution, position: int) -> int:
            drawn[-1].add(position)
            return rule.draw(q, position)

        def verify(self, draft: Draft, p: Callable[[int], Distribution], position: int) -> Verdict:
            drawn[-1].update(range(position, position + len(draft) + 1))
            return rule.verify(draft, p, position)

    def watched_play(*args: Any) -> tuple[int, ...]:
        drawn.append(set())
        return play(*args)

    monkeypatch.setattr(sampling_check, "play", watched_play)
    check_rule(Watched(), branches(1), 20)  # type: ignore[arg-type]
    assert len(drawn) == 20
    assert sum(map(len, drawn)) == len(set().union(*drawn)) >= 40


def test_the_law_is_the_product_along_each_text() -> None:
    found = branches(3)
    texts, law = found.law()
    assert sorted(texts) == sorted(product(range(5), repeat=2))
    assert law.probs.sum() == pytest.approx(1)
    i = texts.index((2, 4))
    assert law.probs[i] == found.target[()].prob(2) * found.target[(2,)].prob(4)


def test_branches_are_what_the_models_say() -> None:
    target_model, draft_model = markov(8, seed=1), markov(8, seed=2)
    target, draft = FakeKVCache(target_model, 8), FakeKVCache(draft_model, 8)
    sampling = SamplingParams.checked(**{**PLAIN, "top_k": 3}, seed=1)
    transforms = Transforms(sampling)
    rule = make_rule("token", sampling)
    drafter = ModelDrafter("d", SameIds(FakeVocab(8), 8), Context(draft), transforms, rule)
    prefix = [1, 2, 3]
    found = evaluate(Context(target), transforms, drafter, prefix)
    history = np.array(prefix, dtype=np.int32)
    first = transforms.distribution(target_model(prefix), history)
    q = transforms.distribution(draft_model(prefix), history)
    assert np.array_equal(found.target[()].ids, first.ids)
    drafted = found.drafter[()]
    assert isinstance(drafted, Distribution)
    assert np.array_equal(drafted.probs, q.probs)
    either = {*first.ids.tolist(), *q.ids.tolist()}
    assert set(found.target) == {()} | {(x,) for x in either}
    assert target.passes == 1 + len(either)
    for x in either:
        after = transforms.distribution(target_model([*prefix, x]), np.append(history, x))
        assert np.array_equal(found.target[(x,)].probs, after.probs)


def test_a_drafter_without_a_guess_and_none_at_all() -> None:
    transforms = Transforms(SamplingParams.checked(**PLAIN, seed=1))
    context = Context(FakeKVCache(markov(8, seed=1), 8))
    silent = evaluate(context, transforms, LookupDrafter(), [1, 2, 3])
    assert silent.drafter.get(()) is None
    alone = evaluate(context, transforms, None, [1, 2, 3])
    assert alone.drafter[()] == alone.target[()].argmax()
    for found in (silent, alone):
        rule = make_rule("token", SamplingParams.checked(**PLAIN, seed=1))
        assert check_rule(rule, found, DRAWS).p_value > LIMIT
