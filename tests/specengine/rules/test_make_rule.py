import numpy as np
import pytest

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft
from specengine.core.errors import SamplingError
from specengine.rules import LOSSY, RULES, default_rule, make_rule
from specengine.sampling import SamplingParams

P = Distribution(np.arange(4, dtype=np.int32), np.array([0.4, 0.3, 0.2, 0.1]))


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"temperature": 0}, "greedy"),
        ({"temperature": 0, "seed": 1}, "greedy"),
        ({}, "block"),
        ({"seed": 1}, "coupled"),
    ],
)
def test_the_default_rule(params: dict[str, float], name: str) -> None:
    sampling = SamplingParams.checked(**params)
    assert default_rule(sampling) == make_rule(None, sampling).name == name


def test_every_rule_has_the_name_it_is_made_by() -> None:
    sampling = SamplingParams(temperature=0)
    assert {name: make_rule(name, sampling).name for name in RULES} == {
        name: name for name in RULES
    }
    assert set(LOSSY) == {"typical"}


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SamplingError, match="no acceptance rule 'tokens': choose block, coupled"):
        make_rule("tokens", SamplingParams())


def test_greedy_above_temperature_0_is_refused() -> None:
    with pytest.raises(SamplingError, match=r"'greedy' needs temperature 0, not 0\.7"):
        make_rule("greedy", SamplingParams(temperature=0.7))


@pytest.mark.parametrize("name", ["token", "block", "coupled", "typical"])
def test_the_same_seed_gives_the_same_rounds_and_no_seed_others(name: str) -> None:
    def play(seed: int | None) -> list[object]:
        rule = make_rule(name, SamplingParams(seed=seed))
        rounds: list[object] = []
        for position in range(0, 300, 3):
            tokens = [rule.draw(P, position + i) for i in range(2)]
            rounds.append((tokens, rule.verify(Draft(tokens, [P, P]), lambda i: P, position)))
        return rounds

    assert play(7) == play(7)
    assert play(7) != play(8)
    assert play(None) != play(None)
