"""What an answer will repeat for the most part: the text that a person wants edited.

Servers with Predicted Outputs take it as `prediction` and pass quickly over what they would have
said themselves. What they would not have said is billed all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from specengine.chat.chat_template import Turn
from specengine.load.request import AnswerRequest

_BLOCK = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
_SHORTEST = 80  # characters that are worth it
_SHORTEST_PROSE = 300


def text_to_edit(turns: Sequence[Turn]) -> str | None:
    """The longest code block of the question, else the text below its first paragraph, else the
    longest code block of the answer before it.
    """
    asked = [turn for turn in turns if turn.role != "system"][-2:]
    if not asked or asked[-1].role != "user":
        return None
    question = asked[-1].text
    if block := _longest_block(question):
        return block
    _, _, below = question.partition("\n\n")
    if len(below.strip()) >= _SHORTEST_PROSE:
        return below.strip()
    return _longest_block(asked[0].text) if asked[0].role == "assistant" else None


def may_be_predicted(request: AnswerRequest) -> bool:
    """Servers refuse a prediction beside these settings."""
    sampling = request.sampling
    penalised = sampling.presence_penalty > 0 or sampling.frequency_penalty > 0
    return request.max_tokens is None and not penalised


def _longest_block(text: str) -> str | None:
    blocks = [block for _, block in _BLOCK.findall(text) if len(block) >= _SHORTEST]
    return max(blocks, key=len, default=None)
