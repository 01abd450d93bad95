"""What can be asked of one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from pydantic.dataclasses import dataclass as checked_dataclass

from specchat.errors import SpecchatError
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams
from specengine.stream.unverified import PartialAnswer


@checked_dataclass(frozen=True, slots=True)
class AnswerOptions(AnswerRequest):
    """What a person may ask of one answer: of the engine, and beyond what the engine knows."""

    raw: bool = False
    """Send the prompt without a chat template."""
    inspect: bool = False
    """Report every round, before the Chunk that it gave; only a target on this machine can."""
    chat_id: int | None = None
    """The chat that the question belongs to: what is kept of its cache is used."""
    begun: PartialAnswer | None = None
    """Verify this answer and go on with it; only a target on a verify server can."""

    @property
    def given(self) -> frozenset[str]:
        """Names of the options, those of sampling included, that are not as they are by default."""
        default = AnswerOptions()
        own = {f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)}
        sampling = {
            name
            for name in SamplingParams.model_fields
            if getattr(self.sampling, name) != getattr(default.sampling, name)
        }
        if not sampling & _PENALTIES:
            sampling.discard("repeat_last_n")  # of which nothing comes
        return frozenset(own - {"sampling"} | sampling)


@dataclass(frozen=True, slots=True)
class Missing:
    """What a back-end cannot do of all that may be asked of an answer; the rest has its effect."""

    refused: Mapping[str, str] = field(default_factory=dict)
    """Options that the answer would be another without, and why they cannot be had."""
    moot: Mapping[str, str] = field(default_factory=dict)
    """Options that change no text, and what a person should know about them here."""

    def check(self, options: AnswerOptions) -> tuple[str, ...]:
        """What is to be said about `options`. Raises SpecchatError that names one refused."""
        given = options.given
        for name in sorted(self.refused.keys() & given):
            raise SpecchatError(f"{_flag(name)}: {self.refused[name]}")
        reasons: dict[str, list[str]] = {}
        for name in sorted(self.moot.keys() & given):
            reasons.setdefault(self.moot[name], []).append(_flag(name))
        return tuple(f"{', '.join(flags)}: {reason}" for reason, flags in reasons.items())


_PENALTIES = frozenset({"repeat_penalty", "frequency_penalty", "presence_penalty"})
_WITHOUT_FLAG = ("typical_p", "repeat_last_n")


def _flag(name: str) -> str:
    """How a person sets the option."""
    return f"sampling.{name}" if name in _WITHOUT_FLAG else f"--{name.replace('_', '-')}"
