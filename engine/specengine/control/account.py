"""How far drafting is ahead of the target alone in an answer, and what it may still lose.

All amounts are in passes over one token: 1.0 is the time that the target alone takes for a token.
"""

from __future__ import annotations

STAKE = 1.0  # what may be lost at once
SHARE = 0.02  # … and for each pass since
RESERVE = 6.0  # the most that what was gained before may be lost again
CREDIT = 3.0  # the most that drafts which take time may lose besides


class Account:
    """What drafting has gained and lost in one answer, and what the next round may lose.

    Drafts that take time have a `credit`, up to CREDIT; for those that cost nothing it is None.
    As long as no round risks more than it may lose, all losses of the answer together are at most
    STAKE, SHARE for each pass, the credit and what a start may cost; with starts SHARE counts
    twice.
    """

    def __init__(self) -> None:
        self._ahead = STAKE
        self._lent = 0.0  # of the credit
        self._saved = 0.0  # for trials and starts; below 0 what a start still owes
        self.earned = 0.0
        """What drafts that take time have gained in all."""

    def count_pass(self) -> None:
        """Add what one more pass of the target, which is about to come, allows to be lost."""
        self._ahead = min(self._ahead + SHARE, RESERVE)
        self._saved = min(self._saved + SHARE, RESERVE)

    def bearable(self, credit: float | None) -> float:
        """The most passes that a round may lose, 0 or more; `credit` as for `settle`."""
        if credit is None:
            return self._ahead
        return self._spare + self._left(credit)

    def bearable_in_trial(self, credit: float) -> float:
        """The most passes that a round may lose which is not expected to pay: what is left of the
        credit and a share of the passes so far, but nothing of what other drafts have gained.
        """
        return min(max(0.0, self._saved) + self._left(credit), self.bearable(credit))

    def bearable_start(self, stake: float) -> float:
        """The most passes that reading the text for drafts that take time may cost, if it may
        cost `stake` passes at once.
        """
        return max(0.0, self._saved + stake)

    def start(self, cost: float) -> None:
        """Charge `cost` passes for reading the text for drafts that take time."""
        self._saved -= cost
        self.earned -= cost

    def settle(self, gained: float, credit: float | None, *, trial: bool) -> None:
        """Book that a round has gained `gained` passes, negative for a loss, with drafts of
        `credit` passes; in a `trial` the round was not expected to pay.
        """
        if credit is not None:
            self.earned += gained
            gained = self._repaid(gained, credit)
            if trial and gained < 0:
                self._saved = max(self._saved + gained, min(self._saved, 0.0))
            gained = max(gained, -self._spare)
        self._ahead = min(self._ahead + gained, RESERVE)

    @property
    def _spare(self) -> float:
        """What is left beside the stake, which is kept for drafts that cost nothing."""
        return max(0.0, self._ahead - STAKE)

    def _left(self, credit: float) -> float:
        """What of `credit` is not lent yet."""
        return max(0.0, credit - self._lent)

    def _repaid(self, gained: float, credit: float) -> float:
        """What of `gained` is left: a loss is lent as far as the credit goes, so that drafts that
        cost nothing need not pay for others; a gain is paid back first, and then for the starts.
        """
        lent = min(max(self._lent - gained, 0.0), max(credit, self._lent))
        gained += lent - self._lent
        self._lent = lent
        owed = min(max(gained, 0.0), max(-self._saved, 0.0))
        self._saved += owed
        return gained - owed
