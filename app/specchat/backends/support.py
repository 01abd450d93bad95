"""Which options of an answer a back-end honours, and what a person hears of the others."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields

from specchat.backends.answer_options import WHERE_POSSIBLE, AnswerOptions
from specchat.errors import SpecchatError
from specengine.sampling import SamplingParams

SAMPLING = frozenset(SamplingParams.model_fields)
EVERYTHING = SAMPLING | {f.name for f in fields(AnswerOptions)} - WHERE_POSSIBLE - {"sampling"}
TOKENS = frozenset({"max_tokens", "stop", "raw", "drafting", "drafter"}) | {
    *("rule", "draft_max", "draft_length", "think")
}
"""What every target honours that takes token ids and drafts from here."""

_WITHOUT_FLAG = ("typical_p", "repeat_last_n")


@dataclass(frozen=True, slots=True)
class Support:
    """An option is honoured, or said to change nothing here, or else refused."""

    honoured: Set[str]
    """Options that have their effect."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why others cannot be had, which the answer would be another without."""
    moot: Mapping[str, str] = field(default_factory=dict)
    """Options that change no text, and what a person should know about them here."""

    def check(self, options: AnswerOptions) -> tuple[str, ...]:
        """What is to be said about `options`. Raises SpecchatError that names one refused."""
        asked = options.given - self.honoured
        for name in sorted(asked - self.moot.keys()):
            reason = self.refused.get(name, "this target cannot be asked for it")
            raise SpecchatError(f"{_flag(name)}: {reason}")
        reasons: dict[str, list[str]] = {}
        for name in sorted(asked):
            reasons.setdefault(self.moot[name], []).append(_flag(name))
        return tuple(f"{', '.join(flags)}: {reason}" for reason, flags in reasons.items())


def _flag(name: str) -> str:
    """How a person sets the option."""
    return f"sampling.{name}" if name in _WITHOUT_FLAG else f"--{name.replace('_', '-')}"
