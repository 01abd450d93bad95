"""How far drafting is ahead of the target alone in an answer, and what it may still lose.

All amounts are in passes of the target alone.
"""

from __future__ import annotations

STAKE = 1.0  # what may be lost at once
SHARE = 0.02  # … and for each pass since
RESERVE = 6.0  # the most that what was gained before may be lost again
CREDIT = 3.0  # the most that drafts which take time may lose besides


class Account:
    """Of one answer. Drafts that take time have a `credit`, up to CREDIT; for those that cost
    nothing it is None.

    If nobody stakes more than is bearable, whatever fails costs no more than STAKE, SHARE for
    each pass, the credit and what a start may cost, altogether; with starts SHARE counts twice.
    """

    def __init__(self) -> None:
        self._ahead = STAKE
        self._lent = 0.0  # of the credit
        self._saved = 0.0  # for trials and starts; below 0 what a start still owes
        self.earned = 0.0
        """What drafts that take time have gained in all."""

    def count_pass(self) -> None:
        """One more pass is to come."""
        self._ahead = min(self._ahead + SHARE, RESERVE)
        self._saved = min(self._saved + SHARE, RESERVE)

    def bearable(self, credit: float | None) -> float:
        """What a round may lose."""
        if credit is None:
            return self._ahead
        return self._spare + self._left(credit)

    def bearable_in_trial(self, credit: float) -> float:
        """What a round may lose that is not expected to pay: the credit and a share of the passes,
        not what others have gained.
        """
        return min(max(0.0, self._saved) + self._left(credit), self.bearable(credit))

    def bearable_start(self, stake: float) -> float:
        """What reading the text for such drafts may cost, if it may cost `stake` at once."""
        return max(0.0, self._saved + stake)

    def start(self, cost: float) -> None:
        """The text was read for drafts that take time."""
        self._saved -= cost
        self.earned -= cost

    def settle(self, gained: float, credit: float | None, *, trial: bool) -> None:
        """A round has gained so much; a loss is negative."""
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
