"""What happened in a round, to look at: the chances of each draft token, the draw, the outcome.

An `Inspector` stands between a target and its acceptance rule and notes what passes. The round it
reports is made of what the rule itself computed; nothing is evaluated, sampled or drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specengine.core.distribution import Distribution
from specengine.core.draft import Draft, Draw, Verdict
from specengine.core.vocab import Vocab
from specengine.rules import AcceptanceRule
from specengine.rules.block import BlockRule
from specengine.rules.residual import drawn_from, residual
from specengine.rules.sampled import SampledRule
from specengine.rules.token import TokenRule

_TOP = 8  # entries of a distribution that are reported


@dataclass(frozen=True, slots=True)
class Entry:
    """A token and its probability. `text` is what a person sees, or a control token's name."""

    token: int
    text: str
    prob: float


@dataclass(frozen=True, slots=True)
class InspectedToken:
    """A draft token, and what decided about it."""

    token: int
    text: str
    q: float
    """Probability with which the drafter drew it; 1 where it was chosen deterministically."""
    p: float | None
    """The target's probability; None where the rule had no need to look."""
    draw: float | None
    """The uniform draw, None where the rule draws none."""
    limit: float | None
    """The draft may be accepted up to this token if `draw` < `limit`: min(1, p/q) for `token`,
    h_i for `block`, None for rules that compare tokens instead.
    """
    accepted: bool

    @property
    def ratio(self) -> float | None:
        """min(1, p/q)."""
        return None if self.p is None else min(1.0, self.p / self.q)


@dataclass(frozen=True, slots=True)
class InspectedRound:
    """One target pass. `token` follows the accepted draft tokens."""

    position: int
    """Of the first draft token in the sequence: the length of the prompt and the text before."""
    rule: str
    draft: tuple[InspectedToken, ...]
    token: Entry
    """With its probability in the distribution that it comes from."""
    is_correction: bool
    """Whether `token` replaces a rejected draft token; else it is the bonus of the pass."""
    from_residual: bool
    """Whether it comes from the residual distribution, else from p."""
    source: tuple[Entry, ...]
    """The most probable entries of that distribution, best first."""

    @property
    def accepted(self) -> int:
        return sum(token.accepted for token in self.draft)


class Inspector:
    """Reports every round of an answer to `on_round`."""

    def __init__(self, vocab: Vocab, on_round: Callable[[InspectedRound], None]) -> None:
        self._vocab = vocab
        self._names = {token: name for name, token in vocab.control.items()}
        self._on_round = on_round

    def verify(
        self, rule: AcceptanceRule, draft: Draft, p: Callable[[int], Distribution], position: int
    ) -> Verdict:
        """As `rule.verify`, whose result it returns."""
        seen: dict[int, Distribution] = {}
        draws: list[Draw] = []

        def noting(i: int) -> Distribution:
            if i not in seen:
                seen[i] = p(i)
            return seen[i]

        if isinstance(rule, SampledRule):
            rule.draws = draws
        try:
            verdict = rule.verify(draft, noting, position)
        finally:
            if isinstance(rule, SampledRule):
                rule.draws = None
        self._on_round(self._round(rule, draft, verdict, seen, draws, position))
        return verdict

    def _round(
        self,
        rule: AcceptanceRule,
        draft: Draft,
        verdict: Verdict,
        seen: dict[int, Distribution],
        draws: list[Draw],
        position: int,
    ) -> InspectedRound:
        is_correction = verdict.accepted < len(draft)
        from_residual = is_correction and isinstance(rule, TokenRule | BlockRule)
        source = seen[verdict.accepted]
        if from_residual:
            source = _residual(rule, draft, verdict.accepted, seen)
        return InspectedRound(
            position,
            rule.name,
            tuple(self._tokens(draft, verdict.accepted, seen, draws)),
            self._entry(verdict.token, source.prob(verdict.token)),
            is_correction,
            from_residual,
            tuple(self._entry(token, prob) for token, prob in source.top(_TOP)),
        )

    def _tokens(
        self, draft: Draft, accepted: int, seen: dict[int, Distribution], draws: list[Draw]
    ) -> list[InspectedToken]:
        by_index = {draw.index: draw for draw in draws}
        tokens = []
        for i, (token, q) in enumerate(zip(draft.tokens, draft.q, strict=True)):
            draw = by_index.get(i)
            tokens.append(
                InspectedToken(
                    token,
                    self._text(token),
                    1.0 if q is None else q.prob(token),
                    seen[i].prob(token) if i in seen else None,
                    draw.u if draw else None,
                    draw.limit if draw else None,
                    i < accepted,
                )
            )
        return tokens

    def _entry(self, token: int, prob: float) -> Entry:
        return Entry(token, self._text(token), prob)

    def _text(self, token: int) -> str:
        piece = self._vocab.piece(token)
        return piece.decode("utf-8", "replace") if piece else self._names.get(token, "")


def _residual(
    rule: AcceptanceRule, draft: Draft, accepted: int, p: dict[int, Distribution]
) -> Distribution:
    """What a correction was drawn from, normalised; p itself where rounding left nothing of it."""
    joint = 1.0
    if isinstance(rule, BlockRule):
        for i, token in enumerate(draft.tokens[:accepted]):
            joint = min(1.0, joint * p[i].prob(token) / drawn_from(draft, i, p[i]).prob(token))
    rest = residual(p[accepted], drawn_from(draft, accepted, p[accepted]), joint)
    mass = rest.probs.sum()
    return Distribution(rest.ids, rest.probs / mass) if mass > 0 else p[accepted]
