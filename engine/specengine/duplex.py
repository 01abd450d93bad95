"""Drafts here while a target elsewhere goes on by itself: nobody waits for anybody.

The target streams what it commits; draft tokens are sent ahead of it as hints, which it may use or
not. With shared noise (the coupled rule) the text is the same with any hints and without. A round
trip therefore costs nothing, as long as the draft runs ahead of what the target commits.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from specengine.answer_text import AnswerText
from specengine.cancel import AbortFlag
from specengine.controller import Offer
from specengine.draft import Draft
from specengine.drafters import Drafter
from specengine.errors import CancelledError, SpecEngineError
from specengine.events import Chunk, Finished, FinishReason
from specengine.sequence import Tokens
from specengine.serving.generation import Committed, Ended
from specengine.serving.transcript import Transcript
from specengine.statistics import Statistics
from specengine.survival import Survival
from specengine.vocab import Vocab

logger = logging.getLogger(__name__)

T = TypeVar("T")

_POLL_S = 0.05  # between two looks at the abort flag


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know of the connection, one line."""

    text: str


StreamEvent = Committed | Ended | Notice


class TargetStream(Protocol):
    """One answer of a target elsewhere, under way. Survives whatever happens to the connection."""

    @property
    def lead(self) -> int:
        """Draft tokens ahead of the committed ones that can be of use: what the target commits
        during a round trip, and what then enters a pass.
        """
        ...

    def wait(self, timeout: float) -> list[StreamEvent]:
        """What has arrived, after at most `timeout` seconds; often nothing."""
        ...

    def hint(self, pos: int, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        """`tokens` may stand at `pos`… after the text with `prefix_hash`. Returns at once."""
        ...

    def close(self) -> None:
        """Tell the target to stop, if it has not."""
        ...


def answer_with_hints(
    stream: TargetStream,
    vocab: Vocab,
    drafters: Sequence[Drafter],
    prompt: Sequence[int],
    *,
    stop: Sequence[str] = (),
    abort: AbortFlag | None = None,
    draft_max: int | None = None,
) -> Iterator[Chunk | Finished]:
    """The events of `generate`, for a target behind `stream`, which was asked to follow `prompt`.

    The most promising of `drafters` drafts whenever there is nothing else to do, `draft_max` tokens
    ahead at most. Closes the stream, even where the caller stops iterating.
    """
    return _Answer(stream, vocab, drafters, prompt, stop, abort, draft_max).run()


@dataclass(slots=True)
class _Segment:
    """Draft tokens of one offer: `n` of them from `pos` on."""

    pos: int
    n: int
    kind: str


class _Ahead:
    """The committed text and the draft beyond it."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.text = Transcript(prompt)
        self.committed = len(self.text)
        self.survival = Survival()
        self._segments: deque[_Segment] = deque()

    @property
    def length(self) -> int:
        """Draft tokens ahead of the committed ones."""
        return len(self.text) - self.committed

    @property
    def last(self) -> int:
        return int(self.text.tokens[-1])

    def draft(self, tokens: Sequence[int], kind: str) -> None:
        self._segments.append(_Segment(len(self.text), len(tokens), kind))
        self.text.extend(tokens)

    def commit(self, token: int) -> None:
        """The target's next token. Where it is not the one drafted, the draft is void."""
        if self.length and self.text.tokens[self.committed] == token:
            self.committed += 1
            self._resolve_kept()
            return
        if self._segments:
            segment = self._segments[0]
            self.survival.observe(segment.kind, segment.n, self.committed - segment.pos)
            self._segments.clear()
        self.text.truncate(self.committed)
        self.text.extend((token,))
        self.committed += 1

    def _resolve_kept(self) -> None:
        segment = self._segments[0]
        if segment.pos + segment.n == self.committed:
            self.survival.observe(segment.kind, segment.n, segment.n)
            self._segments.popleft()


class _Answer:
    def __init__(
        self,
        stream: TargetStream,
        vocab: Vocab,
        drafters: Sequence[Drafter],
        prompt: Sequence[int],
        stop: Sequence[str],
        abort: AbortFlag | None,
        draft_max: int | None,
    ) -> None:
        self._stream = stream
        self._vocab = vocab
        self._drafters = list(drafters)
        self._ahead = _Ahead(prompt)
        self._text = AnswerText(vocab, stop)
        self._abort = abort
        self._draft_max = draft_max
        self._stats = Statistics(prompt_tokens=len(prompt))
        self._notices: list[str] = []
        self._reason: FinishReason | None = None
        self._error: str | None = None
        self._started = time.perf_counter()
        self._first_at: float | None = None
        self._draft_start = self._draft_s()

    def run(self) -> Iterator[Chunk | Finished]:
        try:
            while self._reason is None:
                self._check_cancelled()
                # After drafting, only what has arrived meanwhile is taken.
                drafted = self._may_draft() and self._draft()
                for event in self._stream.wait(0.0 if drafted else _POLL_S):
                    yield from self._take(event)
        except CancelledError:
            self._reason = "cancelled"
        except SpecEngineError as failure:
            self._reason, self._error = "error", str(failure)
        finally:
            self._stream.close()
        self._clock()
        rest = self._text.finish()
        self._stats.completion_tokens = len(self._text.tokens)
        stats = self._stats.snapshot()
        if rest:
            yield Chunk(rest, (), stats)
        yield Finished(
            self._reason,
            self._text.text,
            tuple(self._text.tokens),
            stats,
            self._error,
            tuple(dict.fromkeys(self._notices)),
        )

    def _take(self, event: StreamEvent) -> Iterator[Chunk]:
        if self._reason is not None:
            return  # what was committed after a stop string
        if isinstance(event, Committed):
            yield from self._commit(event)
        elif isinstance(event, Notice):
            self._notices.append(event.text)
        elif event.reason in ("stop", "length"):
            self._reason = "stop" if event.reason == "stop" else "length"
        else:
            self._reason, self._error = "error", event.error or f"the target ended: {event.reason}"

    def _commit(self, event: Committed) -> Iterator[Chunk]:
        if self._first_at is None:
            self._first_at = time.perf_counter()
            self._stats.prompt_s = self._stats.ttft_s = self._first_at - self._started
            self._stats.count_prompt_pass()
            self._draft_start = self._draft_s()
        else:
            name = self._drafters[0].name if len(self._drafters) == 1 else None
            self._stats.count_round(event.drafted, event.accepted, name)
        shown: list[str] = []
        for token in event.tokens:
            self._ahead.commit(token)
            shown.append(self._text.add(token))
            if self._text.stopped:
                self._reason = "stop"
                break
        self._clock()
        self._stats.completion_tokens = self._text.committed
        if shown:
            yield Chunk("".join(shown), event.tokens[: len(shown)], self._stats.snapshot())

    def _may_draft(self) -> bool:
        if self._room() < 1:
            return False
        ahead = self._ahead
        return not (ahead.length and ahead.last in self._vocab.eog)

    def _room(self) -> int:
        """Draft tokens that are of use now."""
        longest = self._stream.lead
        if self._draft_max is not None:
            longest = min(longest, self._draft_max)
        return longest - self._ahead.length

    def _draft(self) -> bool:
        """Draft a little further and send it; whether there was anything to draft."""
        choice = self._choose()
        if choice is None:
            return False
        drafter, offer = choice
        # A model's drafts take time, in which something else may arrive.
        k = min(offer.available, self._room() if offer.token_s == 0 else 1)
        prefix = self._ahead.text.tokens
        draft = self._guarded(drafter, partial(self._propose, drafter, prefix, k))
        if not draft:
            return False
        pos, prefix_hash = len(prefix), self._ahead.text.hash
        self._ahead.draft(draft.tokens, offer.kind)
        self._stream.hint(pos, prefix_hash, draft.tokens)
        return True

    def _propose(self, drafter: Drafter, prefix: Tokens, k: int) -> Draft:
        draft = drafter.propose(prefix, k)
        draft.check(k, self._vocab.size)
        return draft

    def _choose(self) -> tuple[Drafter, Offer] | None:
        """The drafter whose next token is the most likely to stand."""
        prefix = self._ahead.text.tokens
        best, best_chance = None, 0.0
        for drafter in list(self._drafters):
            offer = self._guarded(drafter, partial(drafter.offer, prefix))
            if drafter.notice is not None:
                self._notices.append(drafter.notice)
            if offer is None:
                continue
            chance = self._ahead.survival.cumulative(offer.kind, 1, offer.prior)[0]
            if chance > best_chance:
                best, best_chance = (drafter, offer), chance
        return best

    def _guarded(self, drafter: Drafter, work: Callable[[], T]) -> T | None:
        """A drafter that breaks costs its drafts only: it is asked no more in this answer."""
        try:
            return work()
        except CancelledError:
            raise
        except Exception as failure:
            logger.exception("drafter %s failed", drafter.name)
            self._drafters.remove(drafter)
            self._notices.append(f"drafter {drafter.name} failed ({failure}): going on without it")
            return None

    def _draft_s(self) -> float:
        return sum(drafter.draft_s for drafter in self._drafters)

    def _clock(self) -> None:
        if self._first_at is None:
            return
        self._stats.decode_s = time.perf_counter() - self._first_at
        self._stats.draft_s = self._draft_s() - self._draft_start

    def _check_cancelled(self) -> None:
        if self._abort is not None and self._abort.is_set():
            raise CancelledError("cancelled")
