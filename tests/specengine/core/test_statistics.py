import pytest

from specengine.core.statistics import Statistics


def test_each_drafter_is_counted_for_itself() -> None:
    stats = Statistics()
    stats.count_prompt_pass()
    stats.count_round(4, 2, "lookup", asked=4)
    stats.count_round(0, 0)
    stats.count_round(3, 3, "model", asked=8, trial=True)
    stats.count_round(0, 0, "model", asked=8)
    stats.count_round(5, 1, "lookup", asked=6)
    counts = stats.speculation()
    zero = {"empty": 0, "trials": 0}
    assert counts["by_drafter"] == {
        "lookup": {"rounds": 2, "drafted": 9, "accepted": 3, "asked": 10, **zero},
        "model": {"rounds": 2, "drafted": 3, "accepted": 3, "asked": 16, "empty": 1, "trials": 1},
    }
    assert (counts["rounds"], counts["drafted"], counts["accepted"]) == (5, 12, 6)
    assert (counts["corrected"], counts["bonus"]) == (2, 4)


def test_a_snapshot_stays_as_it_was() -> None:
    stats = Statistics()
    stats.count_round(2, 1, "lookup")
    before = stats.snapshot()
    stats.count_round(2, 2, "lookup")
    assert before.by_drafter["lookup"].accepted == 1
    assert before.accepted_per_position == [1, 0]


@pytest.mark.parametrize("tokens", [0, 1])
def test_an_answer_without_a_second_token_has_no_rates(tokens: int) -> None:
    stats = Statistics(completion_tokens=tokens, decode_s=0.4, plain_tokens_per_s=30.0)
    stats.count_prompt_pass()
    stats.count_round(0, 0)
    rates = (stats.tokens_per_s, stats.tokens_per_pass, stats.speedup, stats.acceptance_rate)
    assert rates == (None, None, None, None)
