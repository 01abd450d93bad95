"""One answer that a server is making: its text so far, its hints, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from specengine.cache.context import Logits
from specengine.control.survival import Survival
from specengine.core.draft import Draft
from specengine.core.drafter import Drafter, Offer
from specengine.core.limits import MAX_DRAFT
from specengine.core.logprobs import TokenLogprobs, token_logprobs
from specengine.rules.coupled import CoupledRule
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.grammar import Grammar
from specengine.serve.hints import Hints
from specengine.stream.committed import Committed, Ended, Event
from specengine.stream.transcript import Transcript

# All hints that a client sends for an answer come from one drafter.
_HINTS = Offer("hints", available=MAX_DRAFT, prior=0.7)


class Generation:
    """One answer under way. Belongs to the engine thread once it was submitted."""

    def __init__(
        self,
        session: Hashable,
        prompt: Transcript,
        sampling: SamplingParams,
        on_event: Callable[[Event], None],
        *,
        max_tokens: int,
        patience_s: float = 0.0,
        grammar: Grammar | None = None,
        logprobs: int | None = None,
        drafter: Drafter | None = None,
    ) -> None:
        """`sampling` has a seed. `session`: whoever's cache this is.

        `patience_s`: how long to wait for a hint before a pass without one. `grammar` belongs to
        the engine thread. `logprobs`: how many alternatives to report with each token's
        log-probability. `drafter`, whose drafts are free, proposes where no hint is there.
        `on_event` is called in the engine thread: Committed*, then exactly one Ended.
        """
        self.session = session
        self.transcript = prompt
        self.on_event = on_event
        self.patience_s = patience_s
        self.hints = Hints()
        self.committed_at = 0.0
        """When the last pass ended; patience counts from here."""
        self.cached = 0
        """Tokens of the prompt that the cache had when the answer began."""
        self._remaining = max_tokens
        self._rule = CoupledRule(sampling)
        self._transforms = Transforms(sampling, grammar)
        self._logprobs = logprobs
        self._drafter = drafter
        self._offer = _HINTS
        self._survival = Survival()

    @property
    def takes_hints(self) -> bool:
        """Whether a hint could still save a pass: the last token comes from a pass anyway."""
        return self._remaining > 1

    def next_hints(self, longest: int) -> list[int]:
        """Hints that continue the text, no more than can be committed."""
        most = min(longest, self._remaining - 1)
        self._offer = _HINTS
        hints = self.hints.after(self.transcript.hash, most)
        if hints or most < 1 or self._drafter is None:
            return hints
        prefix = self.transcript.tokens
        offer = self._drafter.offer(prefix)
        if offer is None:
            return hints
        self._offer = offer
        return self._drafter.propose(prefix, min(most, offer.available)).tokens

    def chances(self, n_hints: int) -> list[float]:
        """For i = 1 … n_hints, the chance that the first i of the last hints are all accepted."""
        offer = self._offer
        return self._survival.cumulative(offer.kind, n_hints, offer.prior, family=offer.family)

    def verify(
        self, hints: list[int], rows: Logits, eog: frozenset[int]
    ) -> tuple[Committed, Ended | None]:
        """Commit what the target says: `rows[i]` are its logits after the text and `hints[:i]`.

        Raises SamplingError where nothing can be drawn, and GrammarError.
        """
        n = len(self.transcript)
        tokens = np.concatenate((self.transcript.tokens, np.array(hints, dtype=np.int32)))
        verdict = self._rule.verify(
            Draft(hints, [None] * len(hints)),
            lambda i: self._transforms.distribution(rows[i], tokens[: n + i]),
            position=n,
        )
        if hints:
            offer = self._offer
            self._survival.observe(
                offer.kind,
                len(hints),
                verdict.accepted,
                prior=offer.prior,
                family=offer.family,
            )
        drawn = [*hints[: verdict.accepted], verdict.token]
        end = next((i for i, token in enumerate(drawn) if token in eog), None)
        kept = drawn[: min(self._remaining, len(drawn) if end is None else end)]
        self._remaining -= len(kept)
        self.transcript.extend(kept)
        margins = tuple(_margin(row) for row in rows[: len(kept)])
        found: tuple[TokenLogprobs, ...] = ()
        if (alternatives := self._logprobs) is not None:
            found = tuple(token_logprobs(rows[i], t, alternatives) for i, t in enumerate(kept))
        committed = Committed(n, tuple(kept), margins, verdict.accepted, len(hints), found)
        if self._remaining > 0 and end is not None:
            return committed, Ended("stop", drawn[end])
        return committed, Ended("length") if self._remaining <= 0 else None


def _margin(row: Logits) -> float:
    best = int(row.argmax())
    others = np.delete(row, best)
    return float(row[best] - others.max())
