"""What is asked of one answer."""

from typing import Any

import pytest
from pydantic import ValidationError

from specengine.core.limits import MAX_DRAFT, MAX_LOGPROBS
from specengine.load.request import AnswerRequest


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tokens": 0},
        {"draft_max": MAX_DRAFT + 1},
        {"draft_length": -1},
        {"logprobs": MAX_LOGPROBS + 1},
    ],
)
def test_a_value_out_of_its_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AnswerRequest(**wrong)


def test_nothing_drafts_where_drafting_is_off_whatever_drafter_is_named() -> None:
    assert AnswerRequest(drafting=False, drafter="lookup").method("model") == "none"
    assert AnswerRequest(drafter="lookup").method("model") == "lookup"
    assert AnswerRequest().method("model") == "model"
