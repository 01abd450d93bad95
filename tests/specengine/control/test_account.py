import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.control.account import CREDIT, RESERVE, SHARE, STAKE, Account

STARTS = 8.0
ROUND = st.tuples(
    st.sampled_from(["free", "dear", "trial", "start"]),
    st.floats(0, 1),  # of what is bearable, how much is staked
    st.one_of(st.just(-1.0), st.floats(-1, 8)),  # what comes of it, in stakes
)


@given(st.lists(ROUND, max_size=120), st.floats(0, CREDIT))
def test_no_history_loses_more_than_stake_share_credit_and_start(
    rounds: list[tuple[str, float, float]], credit: float
) -> None:
    account, total = Account(), 0.0
    for n, (kind, part, outcome) in enumerate(rounds, start=1):
        account.count_pass()
        if kind == "start":
            cost = part * account.bearable_start(STARTS)
            account.start(cost)
            total -= cost
        else:
            its_credit = None if kind == "free" else credit
            trial = kind == "trial"
            bearable = account.bearable_in_trial(credit) if trial else account.bearable(its_credit)
            gained = outcome * part * max(0.0, bearable)
            total += gained
            account.settle(gained, its_credit, trial=trial)
        starts = STARTS + SHARE * n if any(kind == "start" for kind, _, _ in rounds) else 0.0
        assert total >= -(STAKE + SHARE * n + credit + starts) - 1e-9


@given(st.lists(ROUND, max_size=60), st.floats(0, CREDIT))
def test_whatever_takes_time_leaves_the_stake_to_drafts_that_cost_nothing(
    rounds: list[tuple[str, float, float]], credit: float
) -> None:
    """Even if it takes longer than was bearable."""
    account = Account()
    for kind, part, outcome in rounds:
        account.count_pass()
        if kind == "start":
            account.start(20 * part)
        else:
            account.settle(20 * part * outcome, credit, trial=kind == "trial")
        assert account.bearable(None) >= STAKE


def test_a_start_is_paid_by_a_share_of_the_passes_or_by_what_its_drafts_gain() -> None:
    account = Account()
    account.start(STARTS)
    assert account.bearable_start(STARTS) == 0.0
    for _ in range(50):
        account.count_pass()
    assert account.bearable_start(STARTS) == pytest.approx(50 * SHARE)
    account.settle(5.0, 3.0, trial=False)
    assert account.bearable_start(STARTS) == pytest.approx(5 + 50 * SHARE)
    assert account.bearable(None) == pytest.approx(STAKE + 50 * SHARE)
    account.settle(5.0, 3.0, trial=True)
    assert account.bearable_start(STARTS) == STARTS
    assert account.bearable(None) == pytest.approx(STAKE + 50 * SHARE + 10 + 50 * SHARE - STARTS)
    assert account.earned == 10.0 - STARTS


def test_however_long_an_answer_what_it_saves_for_trials_and_starts_has_an_end() -> None:
    account = Account()
    for _ in range(10_000):
        account.count_pass()
    assert account.bearable_start(STARTS) == RESERVE + STARTS
    assert account.bearable_in_trial(CREDIT) <= RESERVE + CREDIT


def test_what_is_owed_for_a_start_leaves_the_credit_to_the_drafts() -> None:
    account = Account()
    account.start(STARTS)
    assert account.bearable(3.0) == account.bearable_in_trial(3.0) == 3.0


def test_drafts_that_take_time_leave_the_stake_to_those_that_cost_nothing() -> None:
    account = Account()
    while (bearable := account.bearable(2.0)) > 0:
        account.settle(-bearable, 2.0, trial=False)
    assert account.bearable(None) == STAKE


def test_a_gain_pays_back_what_was_lent_first() -> None:
    account = Account()
    account.settle(-2.0, 3.0, trial=False)
    assert account.bearable(3.0) == 1.0
    account.settle(1.5, 3.0, trial=False)
    assert (account.bearable(3.0), account.bearable(None)) == (2.5, STAKE)


def test_what_was_gained_is_not_for_trials() -> None:
    account = Account()
    account.settle(5.0, None, trial=False)
    assert account.bearable(3.0) == 8.0
    assert account.bearable_in_trial(3.0) == 3.0
    account.settle(-3.0, 3.0, trial=True)
    assert account.bearable_in_trial(3.0) == 0.0
    for _ in range(50):
        account.count_pass()
    assert account.bearable_in_trial(3.0) == pytest.approx(50 * SHARE)
