"""The loop: prompt → rounds of draft, verify, accept → text, until something ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specengine.chat.reasoning_format import ReasoningFormat
from specengine.control.controller import DraftLengthController
from specengine.control.hindsight import GUESSED, Hindsight
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft, Verdict
from specengine.core.drafter import Drafter, Offer
from specengine.core.errors import ContextFullError
from specengine.core.events import Chunk, Finished
from specengine.core.statistics import Statistics
from specengine.core.tokens import TokenBuffer, Tokens
from specengine.loop.record import AnswerRecord, check_max_tokens
from specengine.loop.target import Target


def generate(
    target: Target,
    drafters: Sequence[Drafter],
    controller: DraftLengthController,
    prompt: Sequence[int],
    *,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    reasoning: ReasoningFormat | None = None,
    abort: AbortFlag | None = None,
) -> Iterator[Chunk | Finished]:
    """Answer `prompt` (token ids): a Chunk for each round that showed something, then Finished.

    Which of `drafters` proposes in a round, if any, is the controller's choice; without one the
    target goes alone.

    The caller may stop iterating at any yield and may set `abort` from any thread: the caches of
    target and drafters stay valid, since they follow whatever sequence is asked of them next.
    `reasoning` tells how the target marks what it thinks, which is no part of the answer's text.
    Without `max_tokens` the answer may fill the target's context. A SpecEngineError of the target
    ends the answer with reason "error", which keeps what came; any other exception of it is a
    mistake of the program and is passed on. Raises at once ValueError for `max_tokens` below 1,
    ContextFullError where the prompt is empty or leaves no room for an answer.
    """
    check_max_tokens(max_tokens)
    room = target.n_ctx - len(prompt)
    if not len(prompt) or room < 1:
        raise ContextFullError(
            f"the prompt of {len(prompt)} tokens leaves no room for an answer in a context of "
            f"{target.n_ctx}: shorten it, or raise --ctx if the model takes more"
            if len(prompt)
            else "the prompt is empty"
        )
    limit = room if max_tokens is None else min(max_tokens, room)
    stats = Statistics(prompt_tokens=len(prompt))
    record = AnswerRecord(
        target.vocab,
        drafters,
        stats,
        stop=stop,
        reasoning=reasoning,
        prompt=prompt,
        abort=abort,
        target_s=lambda: target.verify_s,
    )
    controller.begin()
    return _Answer(target, drafters, controller, TokenBuffer(prompt), limit, record).run()


@dataclass
class _Answer:
    _target: Target
    _drafters: Sequence[Drafter]
    _controller: DraftLengthController
    _sequence: TokenBuffer
    _limit: int
    _record: AnswerRecord

    def __post_init__(self) -> None:
        self._guard = self._record.guard
        self._hindsight = Hindsight(self._controller.learn)

    def run(self) -> Iterator[Chunk | Finished]:
        record = self._record
        with record.ending():
            yield from self._prompt_pass()
            while record.reason is None:
                yield from self._round()
        yield from record.finish(self._target.rule, self._target.plain_pass_s)

    def _prompt_pass(self) -> Iterator[Chunk]:
        self._record.check_cancelled()
        verdict = self._target.verify(self._sequence.view(), Draft())
        self._record.stats.count_prompt_pass()
        self._record.start_decode()
        yield from self._commit(Draft(), verdict)

    def _round(self) -> Iterator[Chunk]:
        """One draft and one target pass, which commit at least one token."""
        self._record.check_cancelled()
        prefix = self._sequence.view()
        # The pass yields one token beyond the draft: it needs room as well.
        room = min(self._limit - self._record.text.committed - 1, self._target.max_draft)
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
        self._record.stats.count_round(
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

    def _commit(self, draft: Draft, verdict: Verdict) -> Iterator[Chunk]:
        """Append what a round committed, up to whatever ends the answer, and show it."""
        chunk = self._record.commit(
            (*draft.tokens[: verdict.accepted], verdict.token),
            verdict.logprobs,
            eog=self._target.vocab.eog,
            limit=self._limit,
            follow=self._follow,
        )
        if chunk is not None:
            yield chunk

    def _follow(self, token: int) -> None:
        self._sequence.append(token)
        self._hindsight.saw(token)
