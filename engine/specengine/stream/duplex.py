"""Drafts on this machine while a remote target goes on by itself: neither waits for the other.

The target streams what it commits; draft tokens are sent ahead of it as hints, which it may use or
not. With shared noise (the coupled rule) the text is the same with any hints and without. A round
trip therefore costs nothing, as long as the draft runs ahead of what the target commits.

While the target is out of reach, the draft may go on and be shown, marked as unverified. Nothing
else is special about it: when the target is back, it is a draft that is long.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specengine.chat.reasoning_format import ReasoningFormat
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter, Offer
from specengine.core.errors import BackendError
from specengine.core.events import Chunk, Finished, Progress, Reviewed, Unverified, Version
from specengine.core.statistics import Statistics
from specengine.core.vocab import Vocab
from specengine.loop.record import AnswerRecord, check_max_tokens
from specengine.rules.coupled import CoupledRule
from specengine.stream.committed import Committed, Ended
from specengine.stream.draft_buffer import DraftBuffer
from specengine.stream.target_stream import Cut, Notice, Opened, StreamEvent, TargetStream
from specengine.stream.unverified import PartialAnswer, ShownText

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
    reasoning: ReasoningFormat | None = None,
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
    try:
        check_max_tokens(max_tokens)
    except ValueError:
        stream.close()
        raise
    stats = Statistics(prompt_tokens=len(prompt), is_remote=True)
    record = AnswerRecord(
        vocab, drafters, stats, stop=stop, reasoning=reasoning, prompt=prompt, abort=abort
    )
    most = sys.maxsize if max_tokens is None else max_tokens
    ahead = DraftBuffer(prompt)
    answer = _Answer(stream, vocab, drafters, ahead, seed, most, draft_max, record)
    if begun is not None:
        answer.take_up(begun)
    return answer.run()


@dataclass
class _Answer:
    _stream: TargetStream
    _vocab: Vocab
    _drafters: Sequence[Drafter]
    _ahead: DraftBuffer
    _seed: int
    _most: int
    _draft_max: int | None
    _record: AnswerRecord

    def __post_init__(self) -> None:
        self._text = self._record.text
        self._stats = self._record.stats
        self._guard = self._record.guard
        self._sent = self._ahead.committed
        self._lost: str | None = None
        self._shown: ShownText | None = None
        """What the person sees, where that may be more than what is verified."""
        self._replaced: list[Version] = []
        self._plain_passes: list[float] = []
        self._is_prompt_done = False

    def take_up(self, begun: PartialAnswer) -> None:
        """Go on with `begun` after the prompt: before anything else."""
        mark = begun.unverified
        for token in begun.tokens[: mark.token]:
            self._ahead.commit(token)
            self._text.add(token)
        self._sent = self._ahead.committed
        if unverified := begun.tokens[mark.token :]:
            self._ahead.extend(unverified, mark.writer)
        self._shown = ShownText(self._text, begun.tokens, mark.writer, self._seed)

    def run(self) -> Iterator[Event]:
        record = self._record
        try:
            with record.ending():
                while record.reason is None:
                    record.check_cancelled()
                    self._heed_loss()
                    # After drafting, only what has arrived meanwhile is taken.
                    drafted = self._may_draft() and self._draft()
                    self._send()
                    if self._lost is not None and self._shown is not None:
                        yield from self._go_on_alone(self._shown, self._lost, drafted)
                    for event in self._stream.wait(0.0 if drafted else _POLL_S):
                        yield from self._take(event)
        finally:
            self._stream.close()
        yield from self._finish()

    # What the target says

    def _take(self, event: StreamEvent) -> Iterator[Event]:
        record = self._record
        if record.reason is not None:
            return  # what was committed after a stop string
        match event:
            case Committed():
                yield from self._commit(event)
            case Notice():
                record.notices.append(event.text)
            case Opened():
                self._sent = self._ahead.committed
            case Cut():
                yield Progress("wait", 0, 0, event.cause)
            case Ended("stop" | "length" as reason):
                record.reason = reason
                if self._shown is not None:
                    yield self._review(self._shown, self._shown.version(self._text))
            case Ended():
                record.fail(event.error or f"the target ended: {event.reason}")

    def _commit(self, event: Committed) -> Iterator[Event]:
        if max(event.tokens, default=0) >= self._vocab.size:
            raise BackendError(
                f"the target says token {max(event.tokens)}, which the vocabulary "
                f"({self._vocab.size}) has not"
            )
        self._count(event)
        shown = self._shown
        replaced: Version | None = None

        def follow(token: int) -> None:
            nonlocal replaced
            is_seen = shown is not None and self._text.committed < shown.committed
            if not self._ahead.commit(token):
                self._sent = 0
                if shown is not None and is_seen and replaced is None:
                    replaced = shown.version(self._text)

        chunk = self._record.commit(event.tokens, event.logprobs, follow=follow)
        self._sent = max(self._sent, self._ahead.committed)
        if shown is not None:
            yield self._review(shown, replaced)
        elif chunk is not None:
            yield chunk

    def _count(self, event: Committed) -> None:
        self._record.start_decode()
        if self._is_prompt_done:
            drafters = self._drafters if event.drafted else []
            name = drafters[0].name if len(drafters) == 1 else None
            self._stats.count_round(event.drafted, event.accepted, name, asked=event.drafted)
            self._count_seconds(event)
        else:
            self._is_prompt_done = True
            self._stats.count_prompt_pass()

    def _count_seconds(self, event: Committed) -> None:
        """Add the seconds of the target's pass, if it tells them: from all passes or from none."""
        if event.pass_s is None or self._stats.verify_s is None:
            self._stats.verify_s = None
            return
        self._stats.verify_s += event.pass_s
        if not event.drafted and event.pass_s > 0:
            self._plain_passes.append(event.pass_s)

    # What is shown without it

    def _heed_loss(self) -> None:
        self._lost = self._stream.lost
        if self._lost is not None and self._shown is None:
            self._ahead.drop()  # some of it may be looked up: nobody's words
            self._shown = ShownText(self._text, self._text.tokens, "", self._seed)

    def _go_on_alone(self, shown: ShownText, lost: str, drafted: bool) -> Iterator[Chunk]:
        """Show the draft model's words as they are drafted."""
        new = self._ahead.draft[shown.committed - self._text.committed :]
        chunk = self._record.commit(new, text=shown, eog=self._vocab.eog, limit=self._most)
        if chunk is not None:
            yield replace(chunk, unverified=shown.mark(self._text))
        elif not drafted and self._record.reason is None:
            self._record.fail(f"{lost}, and the draft model cannot go on by itself")

    def _review(self, shown: ShownText, replaced: Version | None) -> Reviewed:
        """The target has said more, or has ended; `replaced` if not as was shown."""
        if replaced is None and self._text.committed < shown.committed:
            now = shown.version(self._text)
        else:
            text = self._text
            now = Version(text.text, tuple(text.tokens), None, text.reasoning)
            self._shown = None
            if replaced is not None:
                self._replaced.append(replaced)
        self._stats.completion_tokens = len(now.tokens)
        said = self._text if self._shown is None else self._shown
        self._stats.reasoning_tokens = said.answer_at
        return Reviewed(now, replaced, self._stats.snapshot())

    def _finish(self) -> Iterator[Event]:
        shown, mark = self._shown, None
        if shown is not None and shown.committed <= self._text.committed:
            shown = None  # the draft model has said nothing yet
        if shown is not None:
            mark = shown.mark(self._text)
        self._record.notices.extend(self._remarks(mark))
        yield from self._record.finish(
            CoupledRule.name,
            statistics.median(self._plain_passes) if self._plain_passes else None,
            text=shown,
            unverified=mark,
            replaced=self._replaced,
        )

    def _remarks(self, mark: Unverified | None) -> Iterator[str]:
        """What a person should know of words that came while the target was out of reach."""
        if mark is not None:
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
        """How many more draft tokens are of use now; may be below 0."""
        longest = self._stream.lead
        if self._draft_max is not None:
            longest = min(longest, self._draft_max)
        if self._lost is not None:
            longest = self._most - self._text.committed
        return longest - self._ahead.length

    def _draft(self) -> bool:
        """Draft a little further; returns whether there was anything to draft."""
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
        """The drafter, with its offer, whose next token is the most likely to be accepted; only
        models while the target is out of reach. None if none has an offer.
        """
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
