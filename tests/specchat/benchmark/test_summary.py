"""Medians, ratios and worst cases, by numbers that can be checked by hand."""

from typing import Any

import pytest

from specchat.benchmark.report import OwnTiming, Sample
from specchat.benchmark.summary import bound, comparisons, figures, spread, with_shares_of_fixed
from support.samples import sample

PAIR = [("adaptive", "alone")]


def in_turn(ratio: float, alone: float = 10, **which: Any) -> list[Sample]:
    """An answer of the target alone, and one of the controller that is `ratio` times as fast."""
    return [sample("alone", alone, **which), sample("adaptive", ratio * alone, **which)]


def test_the_bound_is_the_best_width_whatever_its_place() -> None:
    # Four cost less than three here, and eight lose what they bring.
    assert bound({1: 0.1, 2: 0.15, 3: 0.2, 4: 0.16, 8: 0.4}) == pytest.approx(4 * 0.1 / 0.16)
    assert bound({1: 0.1, 2: 0.3}) == 1.0


def test_ratios_are_of_answers_measured_in_turn() -> None:
    # The machine was half as fast in the second repeat, for both sides.
    samples = [*in_turn(1.2, 10, repeat=0), *in_turn(1.2, 5, repeat=1)]
    row, mean = comparisons(samples, PAIR, bound=2.0)
    assert row.ratio.median == row.ratio.low == pytest.approx(1.2)
    assert row.of_bound == pytest.approx(0.6)
    assert (row.category, mean.category) == ("code", None)


def test_a_prompt_counts_by_the_median_of_its_repeats() -> None:
    ratios = [1.0, 1.1, 9.0, 1.2, 0.1]
    samples = [s for n, ratio in enumerate(ratios) for s in in_turn(ratio, repeat=n)]
    row, _ = comparisons(samples, PAIR, bound=2.0)
    assert row.ratio.median == pytest.approx(1.1)
    assert row.prompts == 1


def test_the_worst_prompt_is_named_beside_the_median() -> None:
    ratios = [1.5, 0.8, 1.3]
    samples = [s for n, ratio in enumerate(ratios) for s in in_turn(ratio, prompt=f"code-{n}")]
    row, _ = comparisons(samples, PAIR, bound=2.0)
    assert row.worst.prompt == "code-1"
    assert row.worst.ratio == pytest.approx(0.8)
    assert row.ratio.median == pytest.approx(1.3)
    assert (row.ratio.low, row.ratio.high) == pytest.approx((1.05, 1.4))


def test_over_all_categories_the_mean_is_geometric() -> None:
    samples = in_turn(4.0) + in_turn(1.0, category="prose", prompt="prose")
    *_, mean = comparisons(samples, PAIR, bound=2.0)
    assert mean.category is None
    assert mean.ratio.median == pytest.approx(2.0)
    assert (mean.ratio.low, mean.ratio.high) == pytest.approx((1.0, 4.0))
    assert mean.worst.prompt == "prose"


def test_the_controller_is_held_against_the_best_fixed_choice_of_each_category() -> None:
    speeds = {"code": (12, 15, 10), "prose": (9, 8, 6)}  # adaptive, model-3, lookup-3
    samples = []
    for category, (adaptive, model, lookup) in speeds.items():
        for side, speed in (
            ("alone", 10),
            ("adaptive", adaptive),
            ("model-3", model),
            ("lookup-3", lookup),
        ):
            samples.append(sample(side, speed, category=category, prompt=category))
    pairs = [(side, "alone") for side in ("adaptive", "model-3", "lookup-3")]
    rows = comparisons(samples, pairs, bound=2.0)
    shares = {
        (row.side, row.category): row.of_fixed
        for row in with_shares_of_fixed(rows, "adaptive", ["model-3", "lookup-3"])
    }
    assert shares["adaptive", "code"] == pytest.approx(0.8)
    assert shares["adaptive", "prose"] == pytest.approx(0.9), "the target alone is a choice, too"
    assert shares["adaptive", None] == pytest.approx((0.8 * 0.9) ** 0.5)
    assert shares["model-3", "code"] is None
    assert with_shares_of_fixed(rows, "adaptive", []) == rows


def test_conditions_and_turns_are_never_mixed() -> None:
    samples = [
        sample("alone", 10, condition="greedy"),
        sample("adaptive", 20, condition="busy"),
        sample("alone", 10, condition="chat", turn=1),
        sample("adaptive", 20, condition="chat", turn=2),
    ]
    assert comparisons(samples, PAIR, bound=2.0) == ()


def test_an_answer_of_one_token_has_no_speed_and_no_ratio() -> None:
    samples = [sample("alone", 10), sample("adaptive", 10, completion_tokens=1, decode_s=0.0)]
    assert comparisons(samples, PAIR, bound=2.0) == ()
    [row] = [f for f in figures(samples, ["adaptive"], []) if f.category == "code"]
    assert row.tokens_per_s is None
    assert row.answers == 1


def test_figures_add_up_what_was_drafted_and_what_it_cost() -> None:
    timing = OwnTiming(decode_s=10.0, overhead_s=0.2)
    samples = [
        sample("adaptive", 20, drafted=50, accepted=40, target_passes=60, own=timing),
        sample("adaptive", 10, drafted=50, accepted=10, target_passes=90, own=timing, repeat=1),
    ]
    row, everything = figures(samples, ["adaptive"], [])
    assert row.acceptance_rate == pytest.approx(0.5)
    assert row.tokens_per_pass == pytest.approx(200 / 150)
    assert row.overhead == pytest.approx(0.02)
    assert row.tokens_per_s is not None
    assert row.tokens_per_s.median == pytest.approx(15)
    assert everything.category is None
    assert everything.answers == 2


def test_energy_is_known_only_where_it_was_told() -> None:
    told = [sample("alone", 10, energy_j=30.3), sample("alone", 10, energy_j=10.1, repeat=1)]
    assert figures(told, ["alone"], [])[0].joules_per_token == pytest.approx(0.2)
    assert figures([sample("alone", 10)], ["alone"], [])[0].joules_per_token is None


def test_same_text_compares_greedy_answers_with_the_target_alone() -> None:
    samples = [
        *in_turn(1.0),
        sample("alone", 10, prompt="code-2"),
        sample("adaptive", 10, prompt="code-2", digest="other"),
        sample("alone", 10, condition="hot"),
        sample("adaptive", 10, condition="hot", digest="other"),
    ]
    rows = {(f.condition, f.side): f.same_text for f in figures(samples, SIDES, ["greedy"])}
    assert rows == {
        ("greedy", "alone"): None,
        ("greedy", "adaptive"): 0.5,
        ("hot", "alone"): None,
        ("hot", "adaptive"): None,
    }


SIDES = ["alone", "adaptive"]


def test_rows_are_in_the_order_of_the_sides_whoever_answered_first() -> None:
    samples = [sample("adaptive", 10), sample("alone", 10)]
    assert [f.side for f in figures(samples, SIDES, [])] == [*SIDES, *SIDES]


def test_spread_is_median_and_quartiles() -> None:
    assert spread([3.0]) == spread([3.0, 3.0])
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]).model_dump() == {"median": 3, "low": 2, "high": 4}
