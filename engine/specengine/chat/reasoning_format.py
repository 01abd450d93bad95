"""How a model marks what it thinks before it answers, found from its chat template.

What no literal of the template tells is found as llama.cpp's template analyzer finds it: by the
difference that a thought makes to the rendering of a conversation.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specengine.chat.template_sandbox import compiled
from specengine.core.errors import TemplateError
from specengine.core.think import Think

START, CHANNEL, CONSTRAIN = "<|start|>", "<|channel|>", "<|constrain|>"
MESSAGE, END = "<|message|>", "<|end|>"
"""How gpt-oss encloses its messages, each in a channel: the format that is called harmony."""
_FINAL = f"{CHANNEL}final{MESSAGE}"

_HARMONY = f"{CHANNEL}analysis"
_PAIRS = (
    ("<|channel>thought", "<channel|>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
)
_LAST_PAIR = ("<think>", "</think>")
_KEYS = ("reasoning_content", "thinking", "reasoning")
"""Where in a message templates look for the thought."""

_TAG = r"(?:<[^<>\s]+>|\[[^\[\]\s]+\])"
_QUESTION, _ANSWER, _THOUGHT = "qMARKq", "aMARKa", "tMARKt"


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """The marks of a thought, which comes before the answer, and what the template can be told.

    `start` and `end` have no space round them, whatever a model writes there. Those of harmony are
    the headers of its channels `analysis` and `final`.
    """

    kind: Literal["tags", "harmony"]
    start: str
    end: str
    has_switch: bool = False
    """Whether thinking can be switched on or off."""
    has_levels: bool = False
    """Whether it can be made shorter or longer."""

    @property
    def settings(self) -> tuple[Think, ...]:
        """What the template can be told, of `Think`."""
        levels: tuple[Think, ...] = ("low", "medium", "high") if self.has_levels else ()
        return ("on", "off", *levels) if self.has_switch else levels


def variables(think: Think | None) -> Mapping[str, Any]:
    """What a template is given for `think`: nothing for None, which leaves it to the template."""
    if think is None:
        return {}
    thinks = think != "off"
    level = {} if think in ("on", "off") else {"reasoning_effort": think}
    return {"enable_thinking": thinks, "thinking": thinks, **level}


@functools.lru_cache(maxsize=8)
def reasoning_format(template: str | None) -> ReasoningFormat | None:
    """How the model of this chat template marks its thoughts; None where nothing is known of any.

    A template that cannot be rendered has none: what is wrong with it is told where it is used.
    """
    if template is None:
        return None
    is_harmony = _HARMONY in template
    marks = (
        (_HARMONY + MESSAGE, _FINAL)
        if is_harmony
        else _by_literals(template, _PAIRS)
        or _by_difference(template)
        or _by_literals(template, (_LAST_PAIR,))
    )
    if marks is None:
        return None
    told: tuple[Think, ...] = ("on", "off", "low", "high")
    on, off, low, high = (_render(template, **variables(think)) for think in told)
    return ReasoningFormat("harmony" if is_harmony else "tags", *marks, on != off, low != high)


def _by_literals(template: str, pairs: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    return next((pair for pair in pairs if all(mark in template for mark in pair)), None)


def _by_difference(template: str) -> tuple[str, str] | None:
    """The tags that stand right before and after the thought of an answer."""
    plain = _render(template, {"content": _ANSWER})
    for key in _KEYS:
        with_thought = _render(template, {"content": _ANSWER, key: _THOUGHT})
        found = re.search(rf"({_TAG})\s*{_THOUGHT}\s*({_TAG})", with_thought or "")
        if found and not re.search(rf"{re.escape(found[1])}\s*{_ANSWER}", plain or ""):
            return found[1], found[2]
    return None


def _render(template: str, answer: Mapping[str, str] | None = None, **given: Any) -> str | None:
    """A question, and its `answer` or the place where one begins; None where that is refused."""
    messages = [{"role": "user", "content": _QUESTION}]
    if answer is not None:
        messages.append({"role": "assistant", **answer})
    try:
        return compiled(template).render(
            messages=messages,
            add_generation_prompt=answer is None,
            bos_token="",
            eos_token="",
            tools=None,
            documents=None,
            **given,
        )
    except TemplateError:
        return None
