import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.control.account import CREDIT, SHARE, STAKE, Account

ROUND = st.tuples(
    st.sampled_from(["free", "dear", "trial"]),
    st.floats(0, 1),  # of what is bearable, how much is staked
    st.one_of(st.just(-1.0), st.floats(-1, 8)),  # what comes of it, in stakes
)


@given(st.lists(ROUND, max_size=120), st.floats(0, CREDIT))
def test_no_history_loses_more_than_stake_share_and_credit(
    rounds: list[tuple[str, float, float]], credit: float
) -> None:
    account, total = Account(), 0.0
    for n, (kind, part, outcome) in enumerate(rounds, start=1):
        account.count_pass()
        if kind == "trial":
            bearable = account.bearable_in_trial(credit)
        else:
            bearable = account.bearable(None if kind == "free" else credit)
        gained = outcome * part * max(0.0, bearable)
        total += gained
        account.settle(gained, None if kind == "free" else credit, trial=kind == "trial")
        assert total >= -(STAKE + SHARE * n + credit) - 1e-9


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


def test_a_trial_that_succeeds_pays_for_the_next() -> None:
    account = Account()
    account.settle(2.0, 3.0, trial=True)
    assert account.bearable_in_trial(3.0) == 5.0
