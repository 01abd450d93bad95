"""A `specengine.loop.target.Target` behind an inference engine's scoring interface.

A draft costs one request, which scores all of it. Without a draft the server's own stream goes on,
at its own speed: a round trip is paid only where a draft is expected to bring more than that.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from queue import Empty
from typing import TypeVar

import httpx
import numpy as np

from specchat.backends.scoring.client import ScoringClient
from specchat.backends.scoring.continuation import Continuation
from specchat.backends.scoring.dialect import GREEDY, RAW, Drawing, ServerToken
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.http import explain
from specchat.wire.network import NetworkThread
from specengine.cache.costs import PassCosts
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft, Verdict
from specengine.core.errors import BackendError, CancelledError
from specengine.core.limits import MAX_DRAFT
from specengine.core.tokens import Tokens
from specengine.core.vocab import Vocab
from specengine.rules import AcceptanceRule
from specengine.sampling import SamplingParams
from specengine.stream.scoring import Drawn, ScoresError, TopN, Way, distribution, verify_draws

logger = logging.getLogger(__name__)

T = TypeVar("T")

_POLL_S = 0.05
_ATTEMPTS = 4  # at one request
_PAUSE_S = 0.5
_MOST_DRAWS = 16  # in one request, where a correction takes many tries


@dataclass(frozen=True, slots=True)
class Verification:
    """How the drafts of one answer are verified."""

    way: Way
    sampling: SamplingParams
    rule: AcceptanceRule
    top_n: int
    """Most probable tokens to ask for; 0 unless the way is `rows`."""


class ScoringTarget:
    """One answer of `max_tokens` at most; used in the engine thread, to be closed."""

    def __init__(
        self,
        client: ScoringClient,
        network: NetworkThread,
        vocab: Vocab,
        n_ctx: int,
        how: Verification,
        costs: PassCosts,
        abort: AbortFlag,
        *,
        until: int,
        on_wait: Callable[[str], None] = lambda cause: None,
    ) -> None:
        """`costs`: what requests took so far, by draft tokens + 1. `until`: the longest that
        prompt and answer can become. `on_wait` is told why a request is made again.
        """
        self.vocab = vocab
        self.n_ctx = n_ctx
        self.costs = costs
        self.doubt: str | None = None
        """Why the server's scores are not relied on any more."""
        self.verify_s = 0.0
        self._client = client
        self._network = network
        self._how = how
        self._abort = abort
        self._until = until
        self._on_wait = on_wait
        self._continuation: Continuation | None = None
        # Not from the seed: drafts are drawn with that, and have to be independent of this.
        self._uniform = np.random.default_rng().random
        self._prompt_done = False

    @property
    def rule(self) -> str | None:
        return None if self._how.way == "alone" else self._how.rule.name

    @property
    def max_draft(self) -> int:
        return 0 if self.doubt is not None or self._how.way == "alone" else MAX_DRAFT

    @property
    def plain_pass_s(self) -> float | None:
        return self.costs.measured(1)

    def verify(self, prefix: Tokens, draft: Draft) -> Verdict:
        """Raises CancelledError, BackendError if the server cannot be reached any more.

        Scores that cannot be right leave the whole draft out, and the server goes on alone.
        """
        started = time.perf_counter()
        text = prefix.tolist()
        try:
            if len(draft) and self.max_draft:
                try:
                    verdict = self._scored(text, draft)
                    self.costs.observe(len(draft) + 1, time.perf_counter() - started)
                    return self._known(verdict)
                except ScoresError as error:
                    self._doubt(error)
            return self._known(Verdict(0, self._said(text)))
        finally:
            self.verify_s += time.perf_counter() - started
            self._prompt_done = True

    def close(self) -> None:
        if self._continuation is not None:
            self._continuation.close()
            self._continuation = None

    def _known(self, verdict: Verdict) -> Verdict:
        """Raises BackendError for a token of another vocabulary."""
        if verdict.token >= self.vocab.size:
            raise BackendError(
                f"{self._client.address.base} says token {verdict.token}, which is outside the "
                f"vocabulary ({self.vocab.size})"
            )
        return verdict

    def _scored(self, text: list[int], draft: Draft) -> Verdict:
        """One round: everything that it takes is in one answer, but for corrections by draws."""
        how = self._how
        scored = self._asked(lambda: self._client.score(text, draft.tokens, how.top_n))
        if how.way == "rows":
            self._log_margins(len(text), scored.rows)
            return how.rule.verify(
                draft, lambda i: distribution(scored.rows[i], how.sampling), position=len(text)
            )
        p = [math.exp(logprob) for logprob in scored.logprobs]
        return verify_draws(
            draft,
            p,
            scored.said.token,
            lambda i: self._draws([*text, *draft.tokens[:i]]),
            self._uniform,
        )

    def _draws(self, text: Sequence[int]) -> Iterator[Drawn]:
        """Raises BackendError if the server stops telling p: its draft token was rejected, and
        any other token in its place would be drawn too often or too seldom.
        """
        n = 1
        while True:
            try:
                yield from self._asked(lambda n=n: self._client.draw(text, n))  # type: ignore[misc]
            except ScoresError as error:
                raise BackendError(f"{self._client.address.base}: {error}") from error
            n = min(2 * n, _MOST_DRAWS)

    def _said(self, text: list[int]) -> int:
        """The target's next token without a draft."""
        started = time.perf_counter()
        said = self._next(text)
        continuation = self._continuation
        if said is None or continuation is None:
            return _end(self.vocab)
        if self._prompt_done:
            waited = time.perf_counter() - started
            self.costs.observe(1, max(1e-4, continuation.interval_s or waited))
        if self._how.way != "rows" or self.doubt is not None:
            return said.token
        self._log_margins(len(text), [said.top])
        return self._how.rule.verify(
            Draft(), lambda _: distribution(said.top, self._how.sampling), position=len(text)
        ).token

    def _next(self, text: list[int]) -> ServerToken | None:
        """The server's own next token; its end is None."""
        failures = 0
        while True:
            self._check_cancelled()
            if self._continuation is None or self._continuation.text != text:
                self._continue(text)
            assert self._continuation is not None
            try:
                arrival = self._continuation.next(_POLL_S)
            except Empty:
                continue
            if arrival is None or isinstance(arrival, ServerToken):
                return arrival
            self.close()
            if isinstance(arrival, ScoresError):
                if self.doubt is not None:
                    raise BackendError(f"{self._client.address.base}: {arrival}")
                self._doubt(arrival)
                continue
            failures += 1
            self._pause(arrival, failures)

    def _continue(self, text: list[int]) -> None:
        """Let the server go on from `text`."""
        self.close()
        how = self._how
        if self.doubt is not None or how.way == "alone":
            drawing, top_n = Drawing(how.sampling, ignore_end=False), 0
        else:
            drawing, top_n = (GREEDY, how.top_n) if how.way == "rows" else (RAW, 0)
        stream = self._client.stream(text, drawing, max(1, self._until - len(text)), top_n)
        self._continuation = Continuation(self._network, stream, text)

    def _asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer to a request, which is repeated where the server is busy or out of reach."""
        failures = 0
        while True:

            async def work() -> T:
                return await ask()

            asking = self._network.submit(work())
            try:
                while True:
                    try:
                        return asking.result(_POLL_S)
                    except NotYet:
                        self._check_cancelled()
            except (RemoteError, TryAgainError, httpx.TransportError) as failure:
                failures += 1
                self._pause(failure, failures)
            finally:
                asking.cancel()

    def _pause(self, failure: Exception, failures: int) -> None:
        """Before another try; raises BackendError if that is of no use."""
        if isinstance(failure, TryAgainError):
            cause, pause_s = str(failure), failure.after_s
        elif isinstance(failure, httpx.TransportError):
            cause, pause_s = explain(failure, self._client.address), _PAUSE_S * failures
        else:
            raise BackendError(str(failure)) from failure
        if failures >= _ATTEMPTS:
            raise BackendError(cause) from failure
        self._on_wait(cause)
        until = time.monotonic() + pause_s
        while time.monotonic() < until:
            self._check_cancelled()
            time.sleep(min(_POLL_S, pause_s))

    def _doubt(self, error: ScoresError) -> None:
        self.doubt = str(error)
        logger.warning("drafts are not verified any more: %s", error)
        self.close()

    def _log_margins(self, position: int, rows: Sequence[TopN]) -> None:
        margins = [round(row.margin, 4) for row in rows]
        logger.debug("margins from position %d on: %s", position, margins)

    def _check_cancelled(self) -> None:
        if self._abort.is_set():
            raise CancelledError("cancelled")


def _end(vocab: Vocab) -> int:
    return vocab.eos if vocab.eos is not None else min(vocab.eog)
