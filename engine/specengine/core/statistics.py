"""What an answer cost and what drafting brought: the figures of `ask --json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class DrafterCounts(NamedTuple):
    """What was asked of one drafter in an answer, and what came of it."""

    rounds: int = 0
    """Rounds in which it was asked for a draft."""
    drafted: int = 0
    """Draft tokens that it proposed."""
    accepted: int = 0
    """Draft tokens of these that the target accepted."""
    empty: int = 0
    """Rounds whose draft came to nothing."""
    asked: int = 0
    """Draft tokens that it might have made: the sum of the draft lengths chosen."""
    trials: int = 0
    """Rounds that were to teach something, not expected to pay."""

    def plus(self, drafted: int, accepted: int, asked: int, trial: bool) -> DrafterCounts:
        """The counts with one round more, in which it was asked for `asked` tokens, proposed
        `drafted` and had `accepted` of them accepted; a `trial` was not expected to pay.
        """
        return DrafterCounts(
            self.rounds + 1,
            self.drafted + drafted,
            self.accepted + accepted,
            self.empty + (not drafted),
            self.asked + asked,
            self.trials + trial,
        )


@dataclass
class Statistics:
    """Counts and times of one answer. Times are seconds; a ratio whose divisor is 0 is None.

    Each target pass yields one token that was not drafted: `corrected` where a draft token was
    rejected, else `bonus` (the prompt pass and passes without a draft included). So
    accepted + corrected + bonus is the number of tokens before the final cut (max_tokens, stop
    string, end token). The prompt pass is neither a round nor a target pass.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Of these, the thought and its marks, before the answer's first token."""

    is_remote: bool = False
    """The target is remote: it works at the same time as the draft model."""

    load_s: float = 0.0
    prompt_s: float = 0.0
    ttft_s: float | None = None
    answer_s: float | None = None
    """To the first word of the answer, after what was thought; None while there is none."""
    decode_s: float = 0.0

    rounds: int = 0
    target_passes: int | None = 0
    """None if the target does not tell."""
    drafted: int = 0
    accepted: int = 0
    corrected: int = 0
    bonus: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    """Rounds in which the draft token at index i of the draft was accepted, for each i."""
    by_drafter: dict[str, DrafterCounts] = field(default_factory=dict)
    """By the name of the drafter; empty where none was asked for a draft."""
    draft_s: float = 0.0
    """Inside the draft model's decode and synchronize calls, after the first token."""
    verify_s: float | None = 0.0
    """Inside the target's decode and synchronize calls, after the first token; None if a remote
    target does not tell.
    """
    plain_tokens_per_s: float | None = None
    """Of the target alone, measured where it runs; None where it was not."""

    def count_prompt_pass(self) -> None:
        """Count the prompt pass: its last row gives the first token."""
        self.bonus += 1

    def count_round(
        self,
        drafted: int,
        accepted: int,
        drafter: str | None = None,
        *,
        asked: int = 0,
        trial: bool = False,
    ) -> None:
        """Count one target pass over `drafted` tokens, of which the first `accepted` were accepted.
        `drafter` was asked for as many as `asked`, in a `trial` or not; None where nobody was.
        """
        self.target_passes = (self.target_passes or 0) + 1
        self.drafted += drafted
        self.accepted += accepted
        self.rounds += 1
        if accepted < drafted:
            self.corrected += 1
        else:
            self.bonus += 1
        if drafter is not None:
            before = self.by_drafter.get(drafter, DrafterCounts())
            self.by_drafter[drafter] = before.plus(drafted, accepted, asked, trial)
        missing = drafted - len(self.accepted_per_position)
        self.accepted_per_position.extend([0] * max(0, missing))
        for position in range(accepted):
            self.accepted_per_position[position] += 1

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted draft tokens over all draft tokens, 0 to 1."""
        return _ratio(self.accepted, self.drafted)

    @property
    def tokens_per_pass(self) -> float | None:
        """Tokens after the first, which belongs to the prompt pass, over `target_passes`."""
        return self._rate(self.target_passes or 0)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens after the first, which belongs to the prompt pass, over `decode_s`."""
        return self._rate(self.decode_s)

    @property
    def overhead_s(self) -> float | None:
        """Seconds of `decode_s` outside llama.cpp: sampling, the rule, text. None if the target
        is remote and works while the draft model does.
        """
        if self.verify_s is None or self.is_remote:
            return None
        return self.decode_s - self.draft_s - self.verify_s

    @property
    def speedup(self) -> float | None:
        """`tokens_per_s` over `plain_tokens_per_s`."""
        if self.tokens_per_s is None or self.plain_tokens_per_s is None:
            return None
        return _ratio(self.tokens_per_s, self.plain_tokens_per_s)

    def _rate(self, divisor: float) -> float | None:
        """Tokens after the first, over `divisor`; None where there are none."""
        after_first = self.completion_tokens - 1
        return _ratio(after_first, divisor) if after_first > 0 else None

    def snapshot(self) -> Statistics:
        """A copy that another thread may read while this one goes on."""
        copy = object.__new__(Statistics)  # every round makes one: `replace` takes its time
        copy.__dict__.update(self.__dict__)
        copy.accepted_per_position = self.accepted_per_position.copy()
        copy.by_drafter = self.by_drafter.copy()
        return copy

    def timing(self) -> dict[str, Any]:
        return {
            "load_s": self.load_s,
            "prompt_s": self.prompt_s,
            "ttft_s": self.ttft_s,
            "answer_s": self.answer_s,
            "decode_s": self.decode_s,
            "tokens_per_s": self.tokens_per_s,
        }

    def speculation(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds,
            "target_passes": self.target_passes,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "corrected": self.corrected,
            "bonus": self.bonus,
            "acceptance_rate": self.acceptance_rate,
            "tokens_per_pass": self.tokens_per_pass,
            "accepted_per_position": self.accepted_per_position,
            "by_drafter": {name: counts._asdict() for name, counts in self.by_drafter.items()},
            "draft_s": self.draft_s,
            "verify_s": self.verify_s,
            "overhead_s": self.overhead_s,
            "plain_tokens_per_s": self.plain_tokens_per_s,
            "speedup": self.speedup,
        }

    def model_dump(self) -> dict[str, Any]:
        """JSON with the names that other programs rely on."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "timing": self.timing(),
            "speculation": self.speculation(),
        }


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None
