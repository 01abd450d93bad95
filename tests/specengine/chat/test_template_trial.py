"""Which templates a trial finds, before a person's chat does."""

from __future__ import annotations

import pytest

from specengine.chat import template_limits, template_sandbox
from specengine.chat.chat_template import CHATML
from specengine.chat.template_trial import exceeded_limit

HUGE = "{{ 'a' * 10**9 }}"


@pytest.mark.parametrize(
    "source",
    [
        CHATML,
        "",
        "{{ nothing.at.all }}",
        "{% if messages[0].role == 'system' %}{{ raise_exception('none') }}{% endif %}",
        "{{ tools|length }}",
        "{% wrong %}",
    ],
)
def test_what_ends_in_good_time_is_left_to_say_itself_what_is_wrong(source: str) -> None:
    assert exceeded_limit(source) is None


@pytest.mark.parametrize(
    "condition",
    [
        "not messages",
        "messages|length > 70",
        "messages and messages[0].role == 'system'",
        "messages and messages[0].role != 'system'",
        "not add_generation_prompt",
        "messages and messages[-1].content|length > 50000",
    ],
)
def test_conversations_of_every_kind_are_tried(condition: str) -> None:
    source = "{% if " + condition + " %}" + HUGE + "{% endif %}"
    assert exceeded_limit(source) == (
        f"the chat template makes a text or list longer than {template_limits.MAX_LENGTH}"
    )


def test_a_template_that_needs_more_memory_than_there_is_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_memory(value: object) -> str:
        raise MemoryError

    monkeypatch.setattr(template_sandbox, "text_of", no_memory)
    assert exceeded_limit("{{ 17 }}") == "the chat template fails: MemoryError"
