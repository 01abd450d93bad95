"""From the turns of a chat to a prompt: what the template is told, and what a person hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.prompts import encode_prompt
from specengine.chat.chat_template import CHATML, Turn
from specengine.core.think import Think
from specengine.llama.vocab import LlamaVocab
from support.byte_vocab import ByteVocab
from support.thinking_templates import QWEN_LIKE, R1_LIKE

BYTES = ByteVocab([])
VOCAB = cast(LlamaVocab, BYTES)
QUESTION = [Turn("user", "2 + 2?")]


@dataclass(frozen=True)
class Target:
    chat_template: str
    vocab: LlamaVocab = VOCAB
    n_ctx: int = 4096


def prompt(template: str, think: Think | None) -> tuple[str, tuple[str, ...]]:
    ids, notices = encode_prompt(Target(template), QUESTION, AnswerOptions(think=think))
    return BYTES.show(ids), notices


def test_a_template_with_a_switch_is_told_whether_to_think() -> None:
    closed = "<think>\n\n</think>\n\n"
    off, on, own = (prompt(QWEN_LIKE, think) for think in ("off", "on", None))
    assert off == (on[0] + closed, ())
    assert on == own


@pytest.mark.parametrize(
    ("template", "think", "knows"),
    [(QWEN_LIKE, "high", "on, off"), (R1_LIKE, "off", "none"), (CHATML, "on", "none")],
)
def test_what_a_template_cannot_be_told_is_said(template: str, think: Think, knows: str) -> None:
    text, (notice,) = prompt(template, think)
    assert text == prompt(template, None)[0]
    assert notice.startswith(f"--think {think}: ")
    assert notice.endswith(f"it knows {knows}")
