"""What a pass over n tokens costs on this machine, now.

The cost is neither flat nor smooth in n (kernels work in blocks of rows), it grows with the context
and with whatever else the machine is doing. So it is measured: once per model at first use, and
from every pass since.
"""

from __future__ import annotations

from collections.abc import Mapping

_OWN = 0.2  # how far a pass moves the estimate of its own width
_OTHERS = 0.1  # … and, in proportion, that of all others: context and load change them together
_OUTLIER = 3.0  # a pass that was preempted says little: count it as at most this factor
_WIDEST = 17  # a draft of 16 tokens and the token before it
_UNKNOWN_SLOPE = 0.25  # of one row's cost for each further row, until something is measured


class PassCosts:
    """Seconds of a pass by its width; estimates follow what is observed."""

    def __init__(self, seconds: Mapping[int, float] | None = None) -> None:
        """`seconds`: by width, as an earlier run left them (`as_dict`)."""
        self._seconds = dict(seconds or {})
        self._prompt_token_s: float | None = None

    def __bool__(self) -> bool:
        """Whether anything has been measured."""
        return bool(self._seconds)

    def as_dict(self) -> dict[int, float]:
        return dict(self._seconds)

    def measured(self, width: int) -> float | None:
        """Seconds of a pass of exactly this width, None where none was ever measured."""
        return self._seconds.get(width)

    def seconds(self, width: int) -> float:
        """Seconds of a pass over `width` tokens, between measured widths by interpolation."""
        known = self._seconds.get(width)
        if known is not None:
            return known
        if not self._seconds:
            return 1.0 + _UNKNOWN_SLOPE * (width - 1)
        widths = sorted(self._seconds)
        below = max((w for w in widths if w < width), default=None)
        above = min((w for w in widths if w > width), default=None)
        if below is None or above is None:
            nearest = widths[0] if below is None else widths[-1]
            growth = 1 + _UNKNOWN_SLOPE * (width - 1), 1 + _UNKNOWN_SLOPE * (nearest - 1)
            return self._seconds[nearest] * growth[0] / growth[1]
        share = (width - below) / (above - below)
        return (1 - share) * self._seconds[below] + share * self._seconds[above]

    def prompt_seconds(self, tokens: int) -> float:
        """Seconds to evaluate `tokens` without a row for each."""
        if tokens <= _WIDEST:
            return self.seconds(max(1, tokens))
        per_token = self._prompt_token_s
        return tokens * (self.seconds(_WIDEST) / _WIDEST if per_token is None else per_token)

    def forget(self, width: int) -> None:
        """Drop what was measured for `width`: its first pass is no measure of the next."""
        self._seconds.pop(width, None)

    def observe(self, width: int, seconds: float) -> None:
        """A pass over `width` tokens took `seconds`."""
        known = self._seconds.get(width)
        if known is None:
            self._seconds[width] = seconds
            return
        ratio = min(max(seconds / known, 1 / _OUTLIER), _OUTLIER)
        for other in self._seconds:
            weight = _OWN if other == width else _OTHERS
            self._seconds[other] *= ratio**weight

    def observe_prompt(self, tokens: int, seconds: float) -> None:
        """A part of a prompt, `tokens` long, took `seconds`."""
        per_token = seconds / tokens
        old = self._prompt_token_s
        self._prompt_token_s = per_token if old is None else old + _OWN * (per_token - old)
