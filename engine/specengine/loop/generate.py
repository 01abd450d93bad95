"""The loop: prompt → rounds of draft, verify, accept → text, until something ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from specengine.chat.answer_text import AnswerText
from specengine.control.controller import DraftLengthController
from specengine.control.hindsight import GUESSED, Hindsight
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft, Verdict
from specengine.core.drafter import Drafter, Offer
from specengine.core.errors import CancelledError, ContextFullError, SpecEngineError
from specengine.core.events import Chunk, Finished, FinishReason
from specengine.core.logprobs import TokenLogprobs
from specengine.core.statistics import Statistics
from specengine.core.tokens import TokenBuffer, Tokens
from specengine.drafters.guard import Guard
from specengine.loop.target import Target


def generate(
    target: Target,
    drafters: Sequence[Drafter],
    controller: DraftLengthController,
    prompt: Sequence[int],
    *,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    abort: AbortFlag | None = None,
) -> Iterator[Chunk | Finished]:
    """Answer `prompt` (token ids): a Chunk for each round that showed something, then Finished.

    Which of `drafters` proposes in a round, if any, is the controller's choice; without one the
    target goes alone.

    The caller may stop iterating at any yield and may set `abort` from any thread: the caches of
    target and drafters stay valid, since they follow whatever sequence is asked of them next.
    Without `max_tokens` the answer may fill the target's context. A SpecEngineError of the target
    ends the answer with reason "error", which keeps what came; any other exception of it is a
    mistake of the program and is passed on. Raises at once ValueError for `max_tokens` below 1,
    ContextFullError where the prompt is empty or leaves no room for an answer.
    """
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}: an answer has 1 token at least")
    room = target.n_ctx - len(prompt)
    if not len(prompt) or room < 1:
        raise ContextFullError(
            f"the prompt of {len(prompt)} tokens leaves no room for an answer in a context of "
            f"{target.n_ctx}: shorten it, or raise --ctx if the model takes more"
            if len(prompt)
            else "the prompt is empty"
        )
    limit = room if max_tokens is None else min(max_tokens, room)
    return _Answer(target, drafters, controller, prompt, limit, stop, abort).run()


class _Answer:
    def __init__(
        self,
        target: Target,
        drafters: Sequence[Drafter],
        controller: DraftLengthController,
        prompt: Sequence[int],
        limit: int,
        stop: Sequence[str],
        abort: AbortFlag | None,
    ) -> None:
        self._target = target
        self._drafters = list(drafters)
        self._controller = controller
        controller.begin()
        self._hindsight = Hindsight(controller.learn)
        self._sequence = TokenBuffer(prompt)
        self._limit = limit
        self._text = AnswerText(target.vocab, stop)
        self._abort = abort
        self._stats = Statistics(prompt_tokens=len(prompt))
        self._notices: list[str] = []
        self._guard = Guard(self._notices, target.vocab.size, abort)
        self._logprobs: list[TokenLogprobs] = []
        self._reason: FinishReason | None = None
        self._started = time.perf_counter()
        self._decode_started = 0.0
        self._verify_start = target.verify_s
        self._draft_start = self._draft_s()

    def run(self) -> Iterator[Chunk | Finished]:
        error: str | None = None
        try:
            yield from self._prompt_pass()
            while self._reason is None:
                yield from self._round()
        except CancelledError:
            self._reason = "cancelled"
        except SpecEngineError as failure:
            self._reason, error = "error", str(failure)
        self._clock()
        rest = self._text.finish(cut=self._reason != "stop")
        self._stats.completion_tokens = len(self._text.tokens)
        self._stats.plain_tokens_per_s = self._plain_tokens_per_s()
        stats = self._stats.snapshot()
        if rest:
            yield Chunk(rest, (), stats)
        assert self._reason is not None
        yield Finished(
            self._reason,
            self._text.text,
            tuple(self._text.tokens),
            stats,
            error,
            tuple(dict.fromkeys(self._notices)),
            tuple(self._logprobs[: len(self._text.tokens)]),
            rule=self._target.rule,
        )

    def _prompt_pass(self) -> Iterator[Chunk]:
        self._check_cancelled()
        verdict = self._target.verify(self._sequence.view(), Draft())
        now = time.perf_counter()
        self._stats.prompt_s = self._stats.ttft_s = now - self._started
        self._stats.count_prompt_pass()
        # Times of the rounds start after the first token, which the prompt pass gave.
        self._decode_started = now
        self._verify_start = self._target.verify_s
        self._draft_start = self._draft_s()
        yield from self._commit(Draft(), verdict)

    def _round(self) -> Iterator[Chunk]:
        """One draft and one target pass, which commit at least one token."""
        self._check_cancelled()
        prefix = self._sequence.view()
        # The pass yields one token beyond the draft: it needs room as well.
        room = min(self._limit - self._text.committed - 1, self._target.max_draft)
        offers = [self._guard.offer(drafter, prefix) for drafter in self._drafters]
        choice = self._controller.choose(offers, room)
        offer = offers[choice.drafter] if choice.length > 0 else None
        made = name = None
        if offer is not None:
            drafter = self._drafters[choice.drafter]
            name = drafter.name
            made = self._guard.propose(drafter, offer, prefix, choice.length, choice.pace)
        draft = Draft() if made is None else made
        self._guess_beside(choice.drafter if made is not None else None, offers, prefix)
        verdict = self._target.verify(prefix, draft)
        self._stats.count_round(
            len(draft), verdict.accepted, name, asked=choice.length, trial=choice.trial
        )
        if offer is not None and made is not None:  # a draft that came to nothing cost its time
            self._controller.observe(offer, len(draft), verdict.accepted, draft.confidence)
        yield from self._commit(draft, verdict)

    def _guess_beside(
        self, asked: int | None, offers: Sequence[Offer | None], prefix: Tokens
    ) -> None:
        """Note what the drafter that costs nothing would have drafted, if not `asked` itself."""
        for i, (drafter, offer) in enumerate(zip(self._drafters, offers, strict=True)):
            if offer is None or not offer.is_free:
                continue
            if asked == i:
                self._hindsight.drop()
            else:
                k = min(GUESSED, offer.available)
                guess = self._guard.propose(drafter, offer, prefix, k)
                if guess is not None:
                    self._hindsight.guess(offer, guess.tokens)
            return

    def _draft_s(self) -> float:
        return sum(drafter.draft_s for drafter in self._drafters)

    def _commit(self, draft: Draft, verdict: Verdict) -> Iterator[Chunk]:
        """Append what a round committed, up to whatever ends the answer, and show it."""
        shown: list[str] = []
        kept: list[int] = []
        for token in (*draft.tokens[: verdict.accepted], verdict.token):
            if token in self._target.vocab.eog:
                self._reason = "stop"
                break
            self._sequence.append(token)
            self._hindsight.saw(token)
            kept.append(token)
            shown.append(self._text.add(token))
            if self._text.stopped:
                self._reason = "stop"
                break
            if self._text.committed == self._limit:
                self._reason = "length"
                break
        self._logprobs.extend(verdict.logprobs[: len(kept)])
        self._clock()
        self._stats.completion_tokens = self._text.committed
        if kept:
            yield Chunk("".join(shown), tuple(kept), self._stats.snapshot())

    def _clock(self) -> None:
        if self._stats.ttft_s is None:
            return
        self._stats.decode_s = time.perf_counter() - self._decode_started
        self._stats.verify_s = self._target.verify_s - self._verify_start
        self._stats.draft_s = self._draft_s() - self._draft_start

    def _plain_tokens_per_s(self) -> float | None:
        if not self._stats.by_drafter:
            return self._stats.tokens_per_s  # nobody drafted: this was the target alone
        plain_pass_s = self._target.plain_pass_s
        return 1 / plain_pass_s if plain_pass_s else None

    def _check_cancelled(self) -> None:
        if self._abort is not None and self._abort.is_set():
            raise CancelledError("cancelled")
