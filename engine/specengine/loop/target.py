"""The target: the model whose words the person reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from specengine.cache.context import Context
from specengine.core.draft import Draft, Verdict
from specengine.core.logprobs import token_logprobs
from specengine.core.tokens import Tokens
from specengine.core.vocab import Vocab
from specengine.loop.inspection import InspectedRound, Inspector
from specengine.rules import AcceptanceRule
from specengine.sampling import Transforms


class Target(Protocol):
    """Verifies drafts. Local or remote, it answers with what the target model says."""

    @property
    def vocab(self) -> Vocab: ...

    @property
    def n_ctx(self) -> int: ...

    @property
    def rule(self) -> str | None:
        """The acceptance rule's name; None where the target goes alone and nothing is verified."""
        ...

    @property
    def max_draft(self) -> int:
        """Draft tokens that one pass can verify."""
        ...

    @property
    def verify_s(self) -> float:
        """Seconds spent inside the model so far."""
        ...

    @property
    def plain_pass_s(self) -> float | None:
        """Seconds of a pass over one token, as measured on this machine; None if it was not."""
        ...

    def verify(self, prefix: Tokens, draft: Draft) -> Verdict:
        """Evaluate `draft` after `prefix` in one pass. Returns how many of its tokens are accepted
        and which token comes next. Raises CancelledError, or another SpecEngineError if it fails.
        """
        ...


class LocalTarget:
    """A target in this process: one pass over the draft gives p at every position."""

    def __init__(
        self,
        vocab: Vocab,
        context: Context,
        transforms: Transforms,
        rule: AcceptanceRule,
        *,
        logprobs: int | None = None,
        on_prompt: Callable[[int, int], None] | None = None,
        on_round: Callable[[InspectedRound], None] | None = None,
    ) -> None:
        """`logprobs`: how many alternatives to report with each token's log-probability, None for
        no report. `on_prompt(done, total)` hears of evaluations that take several passes,
        `on_round` of what was drawn and decided in each round.
        """
        self.vocab = vocab
        self.context = context
        self.rule = rule.name
        self._transforms = transforms
        self._logprobs = logprobs
        self._on_prompt = on_prompt
        self._verify = rule.verify
        if on_round is not None:
            self._verify = partial(Inspector(vocab, on_round).verify, rule)

    @property
    def n_ctx(self) -> int:
        return self.context.n_ctx

    @property
    def max_draft(self) -> int:
        return self.context.max_rows - 1

    @property
    def verify_s(self) -> float:
        return self.context.decode_s

    @property
    def plain_pass_s(self) -> float | None:
        return self.context.costs.measured(self.context.cheapest_width(1))

    def verify(self, prefix: Tokens, draft: Draft) -> Verdict:
        n, k = len(prefix), len(draft)
        tokens = np.concatenate((prefix, np.array(draft.tokens, dtype=np.int32))) if k else prefix
        rows = self.context.logits(
            tokens, k + 1, self._on_prompt, width=self.context.cheapest_width(k + 1)
        )
        # Penalties and grammar take the draft tokens before a position for accepted: they are,
        # whenever that position is looked at.
        verdict = self._verify(
            draft, lambda i: self._transforms.distribution(rows[i], tokens[: n + i]), position=n
        )
        if self._logprobs is None:
            return verdict
        emitted = [*draft.tokens[: verdict.accepted], verdict.token]
        found = (token_logprobs(rows[i], t, self._logprobs) for i, t in enumerate(emitted))
        return replace(verdict, logprobs=tuple(found))
