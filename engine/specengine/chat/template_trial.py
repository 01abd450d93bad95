"""Conversations of every kind, for a template that was never rendered here.

What they take shows in a process of its own, which may hang or die: see `specengine.load.trial`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from specengine.chat.template_limits import LimitExceededError
from specengine.chat.template_sandbox import compiled
from specengine.core.errors import TemplateError

_BOS, _EOS = "<s>", "</s>"
_TEXTS = (
    "",
    "Why is the sky blue? Xin chào ế 🙂",
    "<think>\nhm\n</think>\n\n```python\nprint('{{ 1 }}')\n```\n<tool_call>{}</tool_call>",
    "word " * 20_000,
    "line\n" * 2_000,
)
_EXCHANGES = (1, 2, 40)


def exceeded_limit(source: str) -> str | None:
    """Which limit the template exceeds with one of the conversations, in words; None: none.

    What it refuses or fails at, it tells in good time whoever asks.
    """
    for messages, add_generation_prompt in itertools.product(_conversations(), (True, False)):
        try:
            compiled(source).render(
                messages=messages,
                add_generation_prompt=add_generation_prompt,
                bos_token=_BOS,
                eos_token=_EOS,
                tools=None,
                documents=None,
            )
        except TemplateError as error:
            if isinstance(error.__cause__, LimitExceededError | MemoryError):
                return str(error)
    return None


def _conversations() -> Iterator[list[dict[str, str]]]:
    yield []
    for text in _TEXTS:
        for system in ([], [{"role": "system", "content": text}]):
            exchange = [
                {"role": "user", "content": text},
                {"role": "assistant", "content": text},
            ]
            for exchanges in _EXCHANGES:
                yield [*system, *exchange * exchanges][:-1]
