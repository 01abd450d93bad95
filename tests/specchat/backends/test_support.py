"""Which options a back-end honours, and what a person hears of the others."""

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.support import EVERYTHING, Support
from specchat.errors import SpecchatError
from specengine.sampling import SamplingParams

OPTIONS = AnswerOptions(SamplingParams(top_k=3), grammar="root ::= [a-z]", draft_max=2)


def test_an_option_that_a_backend_does_not_name_is_refused_by_its_flag() -> None:
    with pytest.raises(SpecchatError, match="--grammar: this target cannot be asked for it"):
        Support({"top_k", "draft_max"}).check(OPTIONS)


def test_an_option_is_refused_with_the_reason_that_the_backend_gives() -> None:
    with pytest.raises(SpecchatError, match="--grammar: no room"):
        Support({"top_k", "draft_max"}, refused={"grammar": "no room"}).check(OPTIONS)


def test_options_that_change_nothing_are_said_together() -> None:
    moot = dict.fromkeys(("draft_max", "top_k"), "nothing comes of it")
    said = Support({"grammar"}, moot=moot).check(OPTIONS)
    assert said == ("--draft-max, --top-k: nothing comes of it",)


def test_a_reason_for_an_option_that_is_honoured_is_not_told() -> None:
    assert Support(EVERYTHING, dict.fromkeys(EVERYTHING, "")).check(OPTIONS) == ()


def test_what_no_person_sets_is_left_aside() -> None:
    assert Support(frozenset()).check(AnswerOptions(inspect=True, chat_id=3)) == ()
