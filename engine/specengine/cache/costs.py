"""What a pass over n tokens costs on this machine, now.

The cost is neither flat nor smooth in n (kernels work in blocks of rows), it grows with the context
and with whatever else the machine is doing. So it is measured: once per model at first use, and
from every pass since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from specengine.cache.measurement import Measurement

_OWN = 0.2  # how far a pass moves the estimate of its own width
_OTHERS = 0.1  # … and, in proportion, that of all others: context and load change them together
_STALE = 32  # passes over one token after which the costs of wider ones are in doubt
_TOLD = 8  # wider ones after which they are not any more
_OUTLIER = 3.0  # a pass that was preempted says little: count it as at most this factor
WIDEST = 17  # a draft of 16 tokens and the token before it: the most rows of a round
PROMPT = 32  # tokens read in one pass from which on each costs about the same
_UNKNOWN_SLOPE = 0.25  # of one row's cost for each further row, until something is measured
_WORTH_PADDING = 0.1  # what padding has to save
_NOTABLE = 0.1  # a pass that is so far from its estimate may change which widths are cheap
_READ_DECAY = 0.9  # of older catch-ups at each new one
_READ_PRIOR = 16.0  # what a guess counts for: as much as one catch-up of six tokens


class PassCosts:
    """Seconds of a pass by its width; estimates follow what is observed."""

    def __init__(self, seconds: Mapping[int, float] | None = None) -> None:
        """`seconds`: by width, as an earlier run left them (`as_dict`)."""
        known = dict(seconds or {})
        # What slows one width slows all: each is kept as its share of a common scale. But passes
        # over one token, which are all that come while nothing is drafted, say nothing of how much
        # dearer wider ones are, so those have a factor in common besides.
        self._shares = {width: s for width, s in known.items() if width < PROMPT}
        self._scale = 1.0
        self._wide = 1.0
        self._passes = math.inf  # since `begin`
        self._narrow = 0  # passes over one token since the last wider one
        self._seen = math.inf  # wider ones since they were in doubt
        self._tables: dict[int, list[int]] = {}
        self.measured_in: Measurement | None = None
        """The last calibration in this process, where there was one."""
        self._prompt_token_s: float | None = None  # in long passes
        for width in known.keys() - self._shares.keys():
            self._prompt_token_s = known[width] / width
        # Of catch-ups, by least squares: sums over x tokens after the second that took y seconds.
        self._read_xy = self._read_xx = 0.0

    def __bool__(self) -> bool:
        """Whether anything has been measured."""
        return bool(self._shares)

    def as_dict(self) -> dict[int, float]:
        """Seconds by width with a row of logits for each token; for PROMPT with a single row."""
        known = {width: self._scale_of(width) * share for width, share in self._shares.items()}
        if self._prompt_token_s is not None:
            known[PROMPT] = PROMPT * self._prompt_token_s
        return known

    def knows(self, widths: Iterable[int]) -> bool:
        """Whether all of `widths` have been measured; PROMPT stands for long passes."""
        reads = self._prompt_token_s is not None
        return all(reads if width >= PROMPT else width in self._shares for width in widths)

    def measured(self, width: int) -> float | None:
        """Seconds of a pass of exactly this width, None where none was ever measured."""
        share = self._shares.get(width)
        return None if share is None else self._scale_of(width) * share

    def seconds(self, width: int) -> float:
        """Seconds of a pass over `width` tokens, between measured widths by interpolation."""
        share = self._shares.get(width)
        if share is not None:
            return self._scale_of(width) * share
        return self._interpolated(width)

    def _scale_of(self, width: int) -> float:
        return self._scale * (self._wide if width > 1 else 1.0)

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
        """Seconds of a width that was not measured."""
        if not self._shares:
            return self._scale * (1.0 + _UNKNOWN_SLOPE * (width - 1))
        widths = sorted(self._shares)
        below = max((w for w in widths if w < width), default=None)
        above = min((w for w in widths if w > width), default=None)
        if below is None or above is None:
            nearest = widths[0] if below is None else widths[-1]
            growth = 1 + _UNKNOWN_SLOPE * (width - 1), 1 + _UNKNOWN_SLOPE * (nearest - 1)
            return self.seconds(nearest) * growth[0] / growth[1]
        share = (width - below) / (above - below)
        return (1 - share) * self.seconds(below) + share * self.seconds(above)

    def prompt_seconds(self, tokens: int) -> float:
        """Seconds to read `tokens`: evaluate them with one row of logits. The more tokens the more
        seconds, so that no gap looks cheaper than one that it is a part of.
        """
        least = self._least_read()
        per_token = self._prompt_token_s
        if tokens >= PROMPT and per_token is not None:
            return max(least, tokens * per_token)
        if tokens < 2 or not (self and self._read_xx):
            at_most = self._with_all_rows(tokens)
            return at_most if per_token is None else min(at_most, max(least, tokens * per_token))
        seconds = least + (tokens - 2) * self._read_token_s()
        return seconds if per_token is None else min(seconds, max(least, PROMPT * per_token))

    def _least_read(self) -> float:
        """Of two tokens or more: other kernels than for one."""
        return max(self.seconds(1), self.seconds(2)) if self else 0.0

    def _read_token_s(self) -> float:
        """Seconds for each token of a catch-up after the second."""
        guess = self._prompt_token_s
        if guess is None:
            guess = _UNKNOWN_SLOPE * self.seconds(1)
        return max(0.0, (_READ_PRIOR * guess + self._read_xy) / (_READ_PRIOR + self._read_xx))

    def _with_all_rows(self, tokens: int) -> float:
        """The cheapest pass that is as wide as `tokens`, or wider."""
        if tokens > WIDEST:
            return tokens * self.seconds(WIDEST) / WIDEST
        return min(self.seconds(width) for width in range(max(1, tokens), WIDEST + 1))

    def forget(self, width: int) -> None:
        """Drop what was measured for `width`: its first pass is no measure of the next."""
        if width >= PROMPT:
            self._prompt_token_s = None
        self._shares.pop(width, None)
        self._tables.clear()

    def begin(self) -> None:
        """Another context length or load may have come: the next few passes tell more of the
        common scale than all before them.
        """
        self._passes = 0

    def observe(self, width: int, seconds: float) -> None:
        """A pass over `width` tokens took `seconds`; what is no duration teaches nothing."""
        if not _is_duration(seconds):
            return
        doubt = self._doubt(width)
        is_new = width not in self._shares
        if is_new and not (doubt and min(self._shares, default=width) < width < max(self._shares)):
            self._shares[width] = seconds / self._scale_of(width)
            self._tables.clear()
            return
        ratio = min(max(seconds / self.seconds(width), 1 / _OUTLIER), _OUTLIER)
        self._passes += 1
        others = max(_OTHERS, 1 / (1 + self._passes))
        wide = max(0.0, doubt - others)
        self._scale *= ratio**others
        self._wide *= ratio**wide
        if is_new:
            self._shares[width] = seconds / self._scale_of(width)
        else:
            self._shares[width] *= ratio ** max(0.0, _OWN - others - wide)
        if is_new or abs(ratio - 1) > _NOTABLE:
            self._tables.clear()

    def _doubt(self, width: int) -> float:
        """How far a pass of this width moves what all wider than one token have in common."""
        if width == 1:
            self._narrow += 1
            return 0.0
        if self._narrow >= _STALE:
            self._seen = 0
        self._narrow = 0
        self._seen += 1
        return 1.5 / (1 + self._seen) if self._seen < _TOLD else 0.0

    def observe_prompt(self, tokens: int, seconds: float) -> None:
        """A pass over `tokens` with one row of logits, or a part of a prompt, took `seconds`."""
        if not _is_duration(seconds):
            return
        if tokens < PROMPT:
            self._observe_catch_up(tokens, seconds)
            return
        per_token = seconds / tokens
        old = self._prompt_token_s
        self._prompt_token_s = per_token if old is None else old + _OWN * (per_token - old)

    def _observe_catch_up(self, tokens: int, seconds: float) -> None:
        beyond = tokens - 2
        if beyond < 1 or not self:
            return
        expected = self.prompt_seconds(tokens)
        seconds = min(max(seconds, expected / _OUTLIER), expected * _OUTLIER)
        extra = seconds - self._least_read()
        self._read_xy = _READ_DECAY * self._read_xy + beyond * extra
        self._read_xx = _READ_DECAY * self._read_xx + beyond * beyond


def _is_duration(seconds: float) -> bool:
    """Clocks are set back, and coarse ones stand still."""
    return 0 < seconds < math.inf
