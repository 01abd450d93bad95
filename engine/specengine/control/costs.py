"""What a pass over n tokens costs on this machine, now.

The cost is neither flat nor smooth in n (kernels work in blocks of rows), it grows with the context
and with whatever else the machine is doing. So it is measured: once per model at first use, and
from every pass since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

_OWN = 0.2  # how far a pass moves the estimate of its own width
_OTHERS = 0.1  # … and, in proportion, that of all others: context and load change them together
_OUTLIER = 3.0  # a pass that was preempted says little: count it as at most this factor
WIDEST = 17  # a draft of 16 tokens and the token before it: the most rows of a round
_UNKNOWN_SLOPE = 0.25  # of one row's cost for each further row, until something is measured
_WORTH_PADDING = 0.1  # what padding has to save
_NOTABLE = 0.1  # a pass that is so far from its estimate may change which widths are cheap


class PassCosts:
    """Seconds of a pass by its width; estimates follow what is observed."""

    def __init__(self, seconds: Mapping[int, float] | None = None) -> None:
        """`seconds`: by width, as an earlier run left them (`as_dict`)."""
        # What slows one width slows all: each is kept as its share of a common scale.
        self._shares = dict(seconds or {})
        self._scale = 1.0
        self._passes = math.inf  # since `begin`
        self._tables: dict[int, list[int]] = {}
        self._prompt_token_s: float | None = None

    def __bool__(self) -> bool:
        """Whether anything has been measured."""
        return bool(self._shares)

    def as_dict(self) -> dict[int, float]:
        return {width: self._scale * share for width, share in self._shares.items()}

    def knows(self, widths: Iterable[int]) -> bool:
        """Whether all of `widths` have been measured."""
        return all(width in self._shares for width in widths)

    def measured(self, width: int) -> float | None:
        """Seconds of a pass of exactly this width, None where none was ever measured."""
        share = self._shares.get(width)
        return None if share is None else self._scale * share

    def seconds(self, width: int) -> float:
        """Seconds of a pass over `width` tokens, between measured widths by interpolation."""
        share = self._shares.get(width)
        return self._scale * (self._interpolated(width) if share is None else share)

    def cheapest(self, width: int, step: int = 1) -> int:
        """The multiple of `step` that is at least `width` and costs least: a pass over `width`
        tokens may be padded to it. Only where that saves something worth the name.
        """
        table = self._tables.get(step)
        if table is None:
            table = self._tables[step] = self._cheapest_widths(step)
        return table[width] if width < len(table) else width + -width % step

    def _cheapest_widths(self, step: int) -> list[int]:
        """By width; index 0 is of no use."""
        table: list[int] = []
        best: int | None = None
        for width in range(WIDEST + -WIDEST % step, 0, -1):
            if width % step == 0 and (
                best is None or self.seconds(width) < (1 + _WORTH_PADDING) * self.seconds(best)
            ):
                best = width
            assert best is not None
            table.append(best)
        return [0, *reversed(table)]

    def _interpolated(self, width: int) -> float:
        """The share of a width that was not measured."""
        if not self._shares:
            return 1.0 + _UNKNOWN_SLOPE * (width - 1)
        widths = sorted(self._shares)
        below = max((w for w in widths if w < width), default=None)
        above = min((w for w in widths if w > width), default=None)
        if below is None or above is None:
            nearest = widths[0] if below is None else widths[-1]
            growth = 1 + _UNKNOWN_SLOPE * (width - 1), 1 + _UNKNOWN_SLOPE * (nearest - 1)
            return self._shares[nearest] * growth[0] / growth[1]
        share = (width - below) / (above - below)
        return (1 - share) * self._shares[below] + share * self._shares[above]

    def prompt_seconds(self, tokens: int) -> float:
        """Seconds to evaluate `tokens` without a row for each."""
        if tokens <= WIDEST:
            return self.seconds(max(1, tokens))
        per_token = self._prompt_token_s
        return tokens * (self.seconds(WIDEST) / WIDEST if per_token is None else per_token)

    def forget(self, width: int) -> None:
        """Drop what was measured for `width`: its first pass is no measure of the next."""
        self._shares.pop(width, None)
        self._tables.clear()

    def begin(self) -> None:
        """Another context length or load may have come: the next few passes tell more of the
        common scale than all before them.
        """
        self._passes = 0

    def observe(self, width: int, seconds: float) -> None:
        """A pass over `width` tokens took `seconds`."""
        share = self._shares.get(width)
        if share is None:
            self._shares[width] = seconds / self._scale
            self._tables.clear()
            return
        ratio = min(max(seconds / (self._scale * share), 1 / _OUTLIER), _OUTLIER)
        self._passes += 1
        others = max(_OTHERS, 1 / (1 + self._passes))
        self._scale *= ratio**others
        self._shares[width] = share * ratio ** max(0.0, _OWN - others)
        if abs(ratio - 1) > _NOTABLE:
            self._tables.clear()

    def observe_prompt(self, tokens: int, seconds: float) -> None:
        """A part of a prompt, `tokens` long, took `seconds`."""
        per_token = seconds / tokens
        old = self._prompt_token_s
        self._prompt_token_s = per_token if old is None else old + _OWN * (per_token - old)
