"""Prompts that do not fit are found before any is measured."""

from __future__ import annotations

from typing import cast

import pytest

from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.room import require_room
from specchat.benchmark.suite import Item
from specengine.chat.chat_template import Turn
from specengine.load.pair import Pair
from support.fakes import FakeVocab


class Small:
    """A pair with a token for each letter, and a context of 40."""

    vocab = FakeVocab(26)
    chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    n_ctx = 40


@pytest.mark.parametrize(
    ("turns", "max_tokens", "fits"),
    [
        ((30,), 200, True),  # a quarter of the context is room enough
        ((31,), 200, False),
        ((36,), 4, True),
        ((20, 16), 4, True),
        ((20, 17), 4, False),
    ],
)
def test_a_prompt_leaves_room_for_its_answer(
    turns: tuple[int, ...], max_tokens: int, fits: bool
) -> None:
    first = Item(id="short", category="a", turns=("a",))
    item = Item(id="long-1", category="a", turns=tuple("b" * n for n in turns))
    pair = cast(Pair, Small())
    if fits:
        require_room(pair, [], [first, item], max_tokens)
    else:
        with pytest.raises(BenchmarkError, match=r"the prompt long-1 of 3[17] tokens"):
            require_room(pair, [], [first, item], max_tokens)
    with pytest.raises(BenchmarkError, match="long-1"):
        require_room(pair, [Turn("system", "c" * 8)], [item], max_tokens)
