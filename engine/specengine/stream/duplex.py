"""Drafts here while a target elsewhere goes on by itself: nobody waits for anybody.

The target streams what it commits; draft tokens are sent ahead of it as hints, which it may use or
not. With shared noise (the coupled rule) the text is the same with any hints and without. A round
trip therefore costs nothing, as long as the draft runs ahead of what the target commits.

While the target is out of reach, the draft may go on and be shown, marked as unverified. Nothing
else is special about it: when the target is back, it is a draft that is long.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence

from specengine.chat.answer_text import AnswerText
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter, Offer
from specengine.core.errors import BackendError, CancelledError, SpecEngineError
from specengine.core.events import Chunk, Finished, FinishReason, Progress, Reviewed, Version
from specengine.core.logprobs import TokenLogprobs
from specengine.core.statistics import Statistics
from specengine.core.vocab import Vocab
from specengine.drafters.guard import Guard
from specengine.rules.coupled import CoupledRule
from specengine.stream.committed import Committed, Ended
from specengine.stream.draft_buffer import DraftBuffer
from specengine.stream.target_stream import Cut, Notice, Opened, StreamEvent, TargetStream
from specengine.stream.unverified import PartialAnswer, Shown

_POLL_S = 0.05  # between two looks at the abort flag
_ALONE = 4  # tokens that are drafted at a time while nothing else can arrive
_HINT = 32  # tokens of one hint, at most
_SENT_AHEAD = 256  # tokens beyond the committed ones that are sent: servers keep so many and more

Event = Progress | Chunk | Reviewed | Finished


def answer_with_hints(
    stream: TargetStream,
    vocab: Vocab,
    drafters: Sequence[Drafter],
    prompt: Sequence[int],
    *,
    seed: int = 0,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    abort: AbortFlag | None = None,
    draft_max: int | None = None,
    begun: PartialAnswer | None = None,
) -> Iterator[Event]:
    """The events of `generate`, for a target behind `stream`, which was asked to follow `prompt`
    and the verified tokens of `begun` for at most `max_tokens` of the answer in all.

    The most promising of `drafters` drafts whenever there is nothing else to do, `draft_max` tokens
    ahead at most. Where the stream says that the target is out of reach, the draft model's words
    are shown, unverified, and reviewed once it is back. `seed` is that of the noise. Closes the
    stream, even where the caller stops iterating. Raises ValueError at once for `max_tokens` below
    1; errors of the stream are as those of `generate`'s target.
    """
    if max_tokens is not None and max_tokens < 1:
        stream.close()
        raise ValueError(f"max_tokens is {max_tokens}: an answer has 1 token at least")
    return _Answer(
        stream, vocab, drafters, prompt, seed, max_tokens, stop, abort, draft_max, begun
    ).run()


class _Answer:
    def __init__(
        self,
        stream: TargetStream,
        vocab: Vocab,
        drafters: Sequence[Drafter],
        prompt: Sequence[int],
        seed: int,
        max_tokens: int | None,
        stop: Sequence[str],
        abort: AbortFlag | None,
        draft_max: int | None,
        begun: PartialAnswer | None,
    ) -> None:
        self._stream = stream
        self._vocab = vocab
        self._drafters = list(drafters)
        self._seed = seed
        self._most = sys.maxsize if max_tokens is None else max_tokens
        self._stop = stop
        self._abort = abort
        self._draft_max = draft_max
        self._text = AnswerText(vocab, stop)
        self._ahead = DraftBuffer(prompt)
        self._lost: str | None = None
        self._shown: Shown | None = None
        """What the person sees, where that may be more than what is verified."""
        self._replaced: list[Version] = []
        if begun is not None:
            self._begin(begun, prompt)
        self._sent = self._ahead.committed
        self._stats = Statistics(prompt_tokens=len(prompt), is_remote=True)
        self._plain_passes: list[float] = []
        self._logprobs: list[TokenLogprobs] = []
        self._notices: list[str] = []
        self._guard = Guard(self._notices, vocab.size, abort)
        self._reason: FinishReason | None = None
        self._error: str | None = None
        self._started = time.perf_counter()
        self._first_at: float | None = None
        self._is_prompt_done = False
        self._draft_start = self._draft_s()

    def _begin(self, begun: PartialAnswer, prompt: Sequence[int]) -> None:
        mark = begun.unverified
        verified = begun.tokens[: mark.token]
        self._ahead = DraftBuffer([*prompt, *verified])
        if unverified := begun.tokens[mark.token :]:
            self._ahead.extend(unverified, mark.writer)
        for token in verified:
            self._text.add(token)
        self._shown = Shown(self._vocab, self._stop, begun.tokens, mark.writer, self._seed)

    def run(self) -> Iterator[Event]:
        try:
            while self._reason is None:
                self._check_cancelled()
                self._heed_loss()
                # After drafting, only what has arrived meanwhile is taken.
                drafted = self._may_draft() and self._draft()
                self._send()
                if self._lost is not None and self._shown is not None:
                    yield from self._go_on_alone(self._shown, drafted)
                for event in self._stream.wait(0.0 if drafted else _POLL_S):
                    yield from self._take(event)
        except CancelledError:
            self._reason = "cancelled"
        except SpecEngineError as failure:
            self._reason, self._error = "error", str(failure)
        finally:
            self._stream.close()
        yield from self._finish(self._reason)

    # What the target says

    def _take(self, event: StreamEvent) -> Iterator[Event]:
        if self._reason is not None:
            return  # what was committed after a stop string
        match event:
            case Committed():
                yield from self._commit(event)
            case Notice():
                self._notices.append(event.text)
            case Opened():
                self._sent = self._ahead.committed
            case Cut():
                yield Progress("wait", 0, 0, event.cause)
            case Ended("stop" | "length" as reason):
                self._reason = reason
                if self._shown is not None:
                    yield self._review(self._shown, self._shown.version(self._text))
            case Ended():
                self._reason = "error"
                self._error = event.error or f"the target ended: {event.reason}"

    def _commit(self, event: Committed) -> Iterator[Event]:
        if max(event.tokens, default=0) >= self._vocab.size:
            raise BackendError(
                f"the target says token {max(event.tokens)}, which the vocabulary "
                f"({self._vocab.size}) has not"
            )
        self._count(event)
        shown, replaced = self._shown, None
        texts: list[str] = []
        for token in event.tokens:
            is_seen = shown is not None and self._text.committed < shown.count
            if not self._ahead.commit(token):
                self._sent = 0
                if shown is not None and is_seen and replaced is None:
                    replaced = shown.version(self._text)
            texts.append(self._text.add(token))
            if self._text.stopped:
                self._reason = "stop"
                break
        self._logprobs.extend(event.logprobs[: len(texts)])
        self._sent = max(self._sent, self._ahead.committed)
        self._clock()
        if shown is not None:
            yield self._review(shown, replaced)
        elif texts:
            self._stats.completion_tokens = self._text.committed
            yield Chunk("".join(texts), event.tokens[: len(texts)], self._stats.snapshot())

    def _count(self, event: Committed) -> None:
        self._begin_clock()
        if self._is_prompt_done:
            drafters = self._drafters if event.drafted else []
            name = drafters[0].name if len(drafters) == 1 else None
            self._stats.count_round(event.drafted, event.accepted, name, asked=event.drafted)
            self._count_seconds(event)
        else:
            self._is_prompt_done = True
            self._stats.count_prompt_pass()

    def _count_seconds(self, event: Committed) -> None:
        """What the target says of its pass: nothing, or how long it took."""
        if event.pass_s is None or self._stats.verify_s is None:
            self._stats.verify_s = None
            return
        self._stats.verify_s += event.pass_s
        if not event.drafted and event.pass_s > 0:
            self._plain_passes.append(event.pass_s)

    def _plain_tokens_per_s(self) -> float | None:
        """Of the target alone: as it was, or as its passes without drafts say."""
        if not self._stats.drafted:
            return self._stats.tokens_per_s
        return 1 / statistics.median(self._plain_passes) if self._plain_passes else None

    # What is shown without it

    def _heed_loss(self) -> None:
        self._lost = self._stream.lost
        if self._lost is not None and self._shown is None:
            self._ahead.drop()  # some of it may be looked up: nobody's words
            self._shown = Shown(self._vocab, self._stop, self._text.tokens, "", self._seed)

    def _go_on_alone(self, shown: Shown, drafted: bool) -> Iterator[Chunk]:
        """Show the draft model's words as they are drafted."""
        texts: list[str] = []
        tokens: list[int] = []
        for token in self._ahead.draft[shown.count - self._text.committed :]:
            if token in self._vocab.eog:
                self._reason = "stop"
                break
            tokens.append(token)
            texts.append(shown.add(token))
            if shown.stopped or shown.count == self._most:
                self._reason = "stop" if shown.stopped else "length"
                break
        if tokens:
            self._begin_clock()
            self._clock()
            self._stats.completion_tokens = shown.count
            mark = shown.mark(self._text)
            yield Chunk("".join(texts), tuple(tokens), self._stats.snapshot(), mark)
        elif not drafted and self._reason is None:
            self._reason = "error"
            self._error = f"{self._lost}, and the draft model cannot go on by itself"

    def _review(self, shown: Shown, replaced: Version | None) -> Reviewed:
        """The target has said more, or has ended; `replaced` if not as was shown."""
        if replaced is None and self._text.committed < shown.count:
            now = shown.version(self._text)
        else:
            now = Version(self._text.text, tuple(self._text.tokens), None)
            self._shown = None
            if replaced is not None:
                self._replaced.append(replaced)
        self._stats.completion_tokens = len(now.tokens)
        return Reviewed(now, replaced, self._stats.snapshot())

    def _finish(self, reason: FinishReason) -> Iterator[Event]:
        self._clock()
        shown = self._shown
        if shown is not None and shown.count <= self._text.committed:
            shown = None  # the draft model has said nothing yet
        rest = (self._text if shown is None else shown).finish(cut=reason != "stop")
        now = Version(self._text.text, tuple(self._text.tokens), None)
        if shown is not None:
            now = shown.version(self._text)
        self._stats.completion_tokens = len(now.tokens)
        self._stats.plain_tokens_per_s = self._plain_tokens_per_s()
        stats = self._stats.snapshot()
        if rest:
            yield Chunk(rest, (), stats, now.unverified)
        yield Finished(
            reason,
            now.text,
            now.tokens,
            stats,
            self._error,
            tuple(dict.fromkeys([*self._notices, *self._remarks(now)])),
            tuple(self._logprobs[: len(now.tokens)]),
            unverified=now.unverified,
            replaced=tuple(self._replaced),
            rule=CoupledRule.name,
        )

    def _remarks(self, now: Version) -> Iterator[str]:
        """What a person should know of words that came while the target was out of reach."""
        if (mark := now.unverified) is not None:
            yield (
                f"what follows its first {mark.token} tokens are the words of {mark.writer}, "
                "which the target has not verified"
            )
        for version in self._replaced:
            if (mark := version.unverified) is not None:
                yield (
                    f"after {mark.token} tokens the target went on in its own words: those of "
                    f"{mark.writer} are kept as another version of the answer"
                )

    # Drafting

    def _may_draft(self) -> bool:
        if self._room() < 1:
            return False
        ahead = self._ahead
        return not (ahead.length and ahead.draft[-1] in self._vocab.eog)

    def _room(self) -> int:
        """Draft tokens that are of use now."""
        longest = self._stream.lead
        if self._draft_max is not None:
            longest = min(longest, self._draft_max)
        if self._lost is not None:
            longest = self._most - self._text.committed
        return longest - self._ahead.length

    def _draft(self) -> bool:
        """Draft a little further; whether there was anything to draft."""
        choice = self._choose()
        if choice is None:
            return False
        drafter, offer = choice
        # A model's drafts take time, in which something else may arrive.
        slow = 1 if self._lost is None else _ALONE
        k = min(offer.available, self._room() if offer.is_free else min(slow, self._room()))
        prefix = self._ahead.text.tokens
        draft = self._guard.propose(drafter, offer, prefix, k)
        if not draft:
            return False
        self._ahead.extend(draft.tokens, offer.kind)
        if self._lost is not None and self._shown is not None:
            self._shown.writer = drafter.name
        return True

    def _send(self) -> None:
        """Hint at what is drafted, as far ahead as the target may keep it."""
        text = self._ahead.text
        end = min(len(text), self._ahead.committed + _SENT_AHEAD)
        while self._sent < end:
            pos, self._sent = self._sent, min(self._sent + _HINT, end)
            self._stream.hint(pos, text.hash_at(pos), text.tokens[pos : self._sent].tolist())

    def _choose(self) -> tuple[Drafter, Offer] | None:
        """The drafter whose next token is the most likely to stand; alone, the draft model."""
        prefix = self._ahead.text.tokens
        best, best_chance = None, 0.0
        for drafter in self._drafters:
            offer = self._guard.offer(drafter, prefix)
            if offer is None or (self._lost is not None and offer.is_free):
                continue
            chance = self._ahead.survival.cumulative(offer.kind, 1, offer.prior)[0]
            if chance > best_chance:
                best, best_chance = (drafter, offer), chance
        return best

    # Clocks

    def _begin_clock(self) -> None:
        """At the first token that is shown."""
        if self._first_at is None:
            self._first_at = time.perf_counter()
            self._stats.prompt_s = self._stats.ttft_s = self._first_at - self._started
            self._draft_start = self._draft_s()

    def _clock(self) -> None:
        if self._first_at is None:
            return
        self._stats.decode_s = time.perf_counter() - self._first_at
        self._stats.draft_s = self._draft_s() - self._draft_start

    def _draft_s(self) -> float:
        return sum(drafter.draft_s for drafter in self._drafters)

    def _check_cancelled(self) -> None:
        if self._abort is not None and self._abort.is_set():
            raise CancelledError("cancelled")
