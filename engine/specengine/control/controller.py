"""Which drafter drafts now, and how many tokens: whatever promises the most tokens a second."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from specengine.control.account import CREDIT, SHARE, Account
from specengine.control.pace import AdaptivePace
from specengine.control.survival import Survival
from specengine.core.drafter import Offer, Pace

# A draft has to promise this much more than the target alone: estimates are noisy, and a promise
# that is not kept is paid by the person.
_MARGIN = 1.08

_START_ROUNDS = 32  # over so many rounds a drafter's start is paid off, if the answer may last
_START = 8.0  # passes of the target alone that reading the text for a drafter may cost at once
_RETRY = 2.0  # … where it is not expected to pay
_TRIAL_LENGTH = 4
_HOPE = 0.95  # acceptance of a draft model in a text that suits it
_WORTH_TRYING = 1.2  # speed-up that has to be hoped for

_LOOK = 32  # passes without drafts after which the cost of a wider one is looked at again
_LOOKS = (2, 2, 5)  # … of these in turn


@dataclass(frozen=True, slots=True)
class Choice:
    """The drafter (index of its offer) and draft length of a round; length 0: target alone."""

    drafter: int
    length: int
    pace: Pace | None = None
    """For a paced offer: what may end the draft before it has `length` tokens."""
    trial: bool = False
    """Whether it is made to learn, not because it is expected to pay."""


ALONE = Choice(0, 0)


class DraftLengthController(Protocol):
    """Decides each round from the offers, and hears how it went."""

    def begin(self) -> None:
        """An answer begins."""
        ...

    def choose(self, offers: Sequence[Offer | None], room: int) -> Choice:
        """`room`: draft tokens that fit; None stands for a drafter that has no guess."""
        ...

    def observe(
        self, offer: Offer, drafted: int, accepted: int, confidence: Sequence[float] = ()
    ) -> None:
        """A draft made after `offer` was verified. `confidence` is that of the `Draft`."""
        ...

    def learn(self, offer: Offer, drafted: int, accepted: int) -> None:
        """What would have come of a draft after `offer` that was not made."""
        ...


class FixedDraftLength:
    """The first drafter that has an offer, always with the same draft length."""

    def __init__(self, k: int) -> None:
        self._k = k

    def begin(self) -> None:
        """Every answer is drafted alike."""

    def choose(self, offers: Sequence[Offer | None], room: int) -> Choice:
        for i, offer in enumerate(offers):
            if offer is not None:
                return Choice(i, min(self._k, room, offer.available))
        return ALONE

    def observe(
        self, offer: Offer, drafted: int, accepted: int, confidence: Sequence[float] = ()
    ) -> None:
        """Nothing is learned."""

    def learn(self, offer: Offer, drafted: int, accepted: int) -> None:
        """Nothing is learned."""


class AdaptiveDraftLength:
    """Maximizes expected tokens a second over all offers and lengths, zero included.

    With A_i the chance that the first i draft tokens all stand, d(k) the cost of k draft tokens
    and v(n) that of a target pass over n tokens, a draft of k tokens gives
    (1 + A_1 + … + A_k) / (d(k) + v(k+1)) tokens a second; no draft gives 1 / v(1).

    Expectations may be wrong, so a draft is made only if the `Account` of the answer could bear
    that all of it falls: no answer takes much longer than the target alone, whatever its text is
    like, and soon after a text has turned unpredictable nothing is risked any more. Drafts that
    cost nothing are judged by `Hindsight`, made or not; for others, where they are expected to
    lose, the account also pays for rare trials, if a good draft could win. An answer in which
    they lost halves what the next one may risk on them; after one in which they won, it may read
    twice as much text for them.

    While nothing is drafted, nothing teaches what a wider pass costs, and costs that were measured
    on a busy machine would silence drafting for good. So then and now a plain pass is widened to
    look again, at most so often that all looks take the share of the time that the account allows.
    """

    def __init__(
        self,
        pass_seconds: Callable[[int], float],
        *,
        longest: int,
        look_at: Callable[[int], None] | None = None,
    ) -> None:
        """`pass_seconds(n)`: what a target pass over n tokens costs now. Drafts have at most
        `longest` tokens. `look_at(n)` lets the next pass take as long as one over n tokens, None
        where that cannot be done.
        """
        self._ask_pass_seconds = pass_seconds
        self._longest = longest
        self._survival = Survival()
        self._tried: set[str] = set()
        self._account = Account()
        self._trust = 1.0  # in drafts that take time
        # As they are in this round: seconds of a pass by its width, worth of drafts by their kind.
        self._passes: dict[int, float] = {}
        self._worths: dict[str, float] = {}
        self._start_rounds = _START_ROUNDS
        self._choice = ALONE  # of this round
        self._look_at = look_at
        self._plain = self._looked = 0  # rounds without a draft since the last; looks so far

    def begin(self) -> None:
        if earned := self._account.earned:
            self._trust = 2.0 if earned > 0 else 0.5
        self._survival.begin()
        self._account = Account()

    def choose(self, offers: Sequence[Offer | None], room: int) -> Choice:
        self._account.count_pass()
        self._passes.clear()
        self._worths.clear()
        self._start_rounds = max(1, room) if room < self._longest else _START_ROUNDS
        self._choice = self._chosen(offers, min(room, self._longest)) if any(offers) else ALONE
        self._plain = 0 if self._choice.length else self._plain + 1
        if self._look_at is not None and self._plain >= _LOOK:
            self._look(self._look_at)
        return self._choice

    def _look(self, look_at: Callable[[int], None]) -> None:
        """Have this pass widened, where enough of them have come to pay for it."""
        width = min(_LOOKS[self._looked % len(_LOOKS)], self._longest + 1)
        # It cannot take longer than as many passes over one token, whatever is believed.
        cost = min(self._pass_seconds(width) / self._pass_seconds(1), width) - 1
        if self._plain * SHARE >= cost and self._account.bearable(None) >= cost:
            look_at(width)
            self._account.settle(-max(0.0, cost), None, trial=False)
            self._plain, self._looked = 0, self._looked + 1

    def _chosen(self, offers: Sequence[Offer | None], room: int) -> Choice:
        best, best_rate = ALONE, _MARGIN / self._pass_seconds(1)
        for i, offer in enumerate(offers):
            if offer is None or not self._may_start(offer):
                continue
            longest = min(room, offer.available)
            chances = self._survival.cumulative(offer.kind, longest, offer.prior, offer.family)
            k, rate = self._best_length(offer, chances, self._bearable_s(offer))
            if rate > best_rate:
                best, best_rate = Choice(i, k), rate
        if not best.length:
            return self._trial(offers, room)
        offer = offers[best.drafter]
        return self._paced(best, offer, best_rate, room) if offer and offer.paced else best

    def _paced(self, choice: Choice, offer: Offer, rate: float, room: int) -> Choice:
        """As long as it is sure of itself the draft may go on, as far as the account can bear."""
        bearable_s, longest = self._bearable_s(offer), min(room, offer.available)
        length = choice.length
        while length < longest and self._seconds(offer, length + 1) <= bearable_s:
            length += 1
        pace = AdaptivePace(
            self._survival,
            offer.kind,
            offer.prior,
            rate,
            offer.seconds,
            self._pass_seconds,
            length,
        )
        return Choice(choice.drafter, length, pace)

    def observe(
        self, offer: Offer, drafted: int, accepted: int, confidence: Sequence[float] = ()
    ) -> None:
        self.learn(offer, drafted, accepted, confidence)
        alone = self._pass_seconds(1)
        if offer.start_s:
            self._account.start(offer.start_s / alone)
        spent = self._draft_seconds(offer, drafted, len(confidence))
        spent += self._pass_seconds(drafted + 1)
        gained = accepted + 1 - spent / alone
        self._account.settle(gained, self._credit(offer), trial=self._choice.trial)

    def _draft_seconds(self, offer: Offer, drafted: int, asked: int) -> float:
        """What a draft took, of which the pace was `asked` so often whether to draw a token."""
        if offer.together_s is not None and not offer.paced:
            return offer.seconds(max(drafted, self._choice.length))  # however many are left of it
        # A draft that ended for lack of confidence took one draft pass more than it has tokens.
        return offer.seconds(max(drafted, asked, 1))

    def learn(
        self, offer: Offer, drafted: int, accepted: int, confidence: Sequence[float] = ()
    ) -> None:
        self._tried.add(offer.kind)
        self._survival.observe(
            offer.kind,
            drafted,
            accepted,
            prior=offer.prior,
            family=offer.family,
            confidence=confidence,
        )

    def _trial(self, offers: Sequence[Offer | None], room: int) -> Choice:
        """The target alone, or now and then a draft that may teach otherwise."""
        alone = self._pass_seconds(1)
        best, best_rate = ALONE, _WORTH_TRYING / alone
        for i, offer in enumerate(offers):
            if offer is None or offer.is_free:
                continue
            if not self._may_start(offer, retry=offer.kind in self._tried):
                continue
            hope = max(offer.prior, _HOPE)
            longest = min(room, offer.available, _TRIAL_LENGTH)
            chances = [hope ** (n + 1) for n in range(longest)]
            bearable = self._account.bearable_in_trial(self._credit(offer) or 0.0)
            k, rate = self._best_length(offer, chances, (1 + bearable) * alone)
            if rate > best_rate:
                best, best_rate = Choice(i, k, trial=True), rate
        return best

    def _may_start(self, offer: Offer, *, retry: bool = False) -> bool:
        """Whether the account can bear that the text is read for nothing."""
        if not offer.start_s:
            return True
        stake = _RETRY if retry else _START * self._trust
        bearable = self._account.bearable_start(stake * self._worth(offer))
        return offer.start_s <= bearable * self._pass_seconds(1)

    def _bearable_s(self, offer: Offer) -> float:
        """The longest round that the account can bear if all of its draft falls."""
        return (1 + self._account.bearable(self._credit(offer))) * self._pass_seconds(1)

    def _credit(self, offer: Offer) -> float | None:
        """Drafts that take time are dearer, and seldom fall altogether: they may lose more before
        they are given up, the more the more they could win. None for others.
        """
        return None if offer.is_free else min(1.0, self._trust) * CREDIT * self._worth(offer)

    def _worth(self, offer: Offer) -> float:
        """How much faster a good draft would be: 0 for no faster, 1 for twice as fast or more."""
        worth = self._worths.get(offer.kind)
        if worth is None:
            hoped = [_HOPE ** (n + 1) for n in range(min(self._longest, offer.available))]
            _, rate = self._best_length(offer, hoped, math.inf)
            worth = min(max(0.0, rate * self._pass_seconds(1) - 1), 1.0)
            self._worths[offer.kind] = worth
        return worth

    def _best_length(
        self, offer: Offer, chances: Sequence[float], bearable_s: float
    ) -> tuple[int, float]:
        """The draft length with the most expected tokens a second, and how many those are.

        Rounds that take longer than `bearable_s` are left out.
        """
        tokens = 1.0
        best, best_rate = 0, 0.0
        for k, chance in enumerate(chances, start=1):
            tokens += chance
            seconds = self._seconds(offer, k)
            if seconds > bearable_s:
                continue
            rate = tokens / (seconds + offer.start_s / self._start_rounds)
            if rate > best_rate:
                best, best_rate = k, rate
        return best, best_rate

    def _pass_seconds(self, width: int) -> float:
        known = self._passes.get(width)
        if known is None:
            known = self._passes[width] = self._ask_pass_seconds(width)
        return known

    def _seconds(self, offer: Offer, k: int) -> float:
        """A round with `k` draft tokens: draft and target pass."""
        return offer.seconds(k) + self._pass_seconds(k + 1)
