"""A chat that is longer than the context of a head goes on without its drafts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.fakes import greedy_continuation
from support.head_rigs import MODEL, PROMPT, block_rig, head_rig
from support.rig import Rig


@pytest.mark.parametrize("rig", [head_rig, block_rig])
def test_a_chat_that_outgrows_the_head_goes_on_with_a_notice(rig: Callable[..., Rig]) -> None:
    finished = rig(n_ctx=12).run(PROMPT, 3, max_tokens=30)
    assert list(finished.tokens) == greedy_continuation(MODEL, PROMPT, 30)
    assert finished.stats.drafted > 0
    assert len(finished.notices) == 1
    assert "longer than the context of the head head (12 tokens)" in finished.notices[0]
