"""How much of a server's context an answer may fill."""

from __future__ import annotations

import pytest

from specchat.backends.answer_room import answer_room
from specengine.core.errors import ContextFullError


@pytest.mark.parametrize(("max_tokens", "room"), [(None, 12), (5, 5), (40, 12)])
def test_an_answer_has_what_the_prompt_leaves(max_tokens: int | None, room: int) -> None:
    assert answer_room(100, 112, max_tokens) == room


def test_a_prompt_that_leaves_nothing_is_refused() -> None:
    assert answer_room(111, 112, None) == 1
    with pytest.raises(ContextFullError, match=r"prompt of 112 tokens .* server's context of 112"):
        answer_room(112, 112, 5)
