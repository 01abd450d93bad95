"""The record of an answer: its text, its clock, its drafters' failures, and how it ended.

Both loops keep one: `generate`, whose target is in this process, and `stream.duplex`, which follows
a remote one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from specengine.chat.answer_text import AnswerText
from specengine.chat.reasoning_format import ReasoningFormat
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter
from specengine.core.errors import CancelledError, SpecEngineError
from specengine.core.events import Chunk, Finished, FinishReason, Unverified, Version
from specengine.core.logprobs import TokenLogprobs
from specengine.core.statistics import Statistics
from specengine.core.vocab import Vocab
from specengine.drafters.guard import Guard


class AnswerRecord:
    """The state of one answer that is being made."""

    def __init__(
        self,
        vocab: Vocab,
        drafters: Sequence[Drafter],
        stats: Statistics,
        *,
        stop: Sequence[str] = (),
        reasoning: ReasoningFormat | None = None,
        prompt: Sequence[int] = (),
        abort: AbortFlag | None = None,
        target_s: Callable[[], float] | None = None,
    ) -> None:
        """Starts the clock. `stop`, `reasoning` and `prompt` are those of `AnswerText`. `target_s`
        returns the seconds spent inside the target so far; without it `stats.verify_s` is left to
        the caller. `abort` is set when the person cancels.
        """
        self.text = AnswerText(vocab, stop, reasoning, prompt)
        """What the target has said."""
        self.stats = stats
        self.notices: list[str] = []
        """What a person should know of the answer, a line each; one said twice is shown once."""
        self.guard = Guard(self.notices, vocab.size, abort)
        self.reason: FinishReason | None = None
        """Why the answer has ended; None while it goes on."""
        self.error: str | None = None
        self._drafters = drafters
        self._abort = abort
        self._target_s = target_s or (lambda: 0.0)
        self._keeps_verify_s = target_s is not None
        self._logprobs: list[TokenLogprobs] = []
        self._started = time.perf_counter()
        self._first_at: float | None = None
        self._draft_start = self._target_start = 0.0

    def start_decode(self) -> None:
        """The first token has come, if it has not before: `decode_s`, `draft_s` and `verify_s` are
        counted from here on.
        """
        if self._first_at is not None:
            return
        self._first_at = time.perf_counter()
        self.stats.prompt_s = self.stats.ttft_s = self._first_at - self._started
        self._draft_start, self._target_start = self._draft_s(), self._target_s()

    def commit(
        self,
        tokens: Sequence[int],
        logprobs: Sequence[TokenLogprobs] = (),
        *,
        text: AnswerText | None = None,
        eog: frozenset[int] = frozenset(),
        limit: int | None = None,
        follow: Callable[[int], object] = lambda token: None,
    ) -> Chunk | None:
        """Append `tokens` to `text` (by default what the target has said), up to a stop string, an
        end token of `eog` or the length of `limit` tokens, which end the answer.

        Returns what that adds, None where no token is kept; `logprobs` has one for each token,
        where they were asked for. `follow` hears of each token that is kept, before the text does.
        """
        text = text or self.text
        kept: list[int] = []
        shown = thought = ""
        for token in tokens:
            if token in eog:
                self.reason = "stop"
                break
            follow(token)
            kept.append(token)
            new = text.add(token)
            shown, thought = shown + new.text, thought + new.reasoning
            if text.stopped:
                self.reason = "stop"
                break
            if text.committed == limit:
                self.reason = "length"
                break
        if not kept:
            return None
        self._logprobs.extend(logprobs[: len(kept)])
        self.start_decode()
        self._clock()
        self._count(text, text.committed)
        return Chunk(shown, tuple(kept), self.stats.snapshot(), reasoning=thought)

    def check_cancelled(self) -> None:
        """Raises CancelledError if the person has cancelled."""
        if self._abort is not None and self._abort.is_set():
            raise CancelledError("cancelled")

    def fail(self, error: str) -> None:
        """End the answer with reason "error", for the cause `error`."""
        self.reason, self.error = "error", error

    @contextmanager
    def ending(self) -> Iterator[None]:
        """What is raised inside ends the answer: CancelledError with reason "cancelled", another
        SpecEngineError with "error". All else is a mistake of the program, and is passed on.
        """
        try:
            yield
        except CancelledError:
            self.reason = "cancelled"
        except SpecEngineError as failure:
            self.fail(str(failure))

    def finish(
        self,
        rule: str | None,
        plain_pass_s: float | None,
        *,
        text: AnswerText | None = None,
        unverified: Unverified | None = None,
        replaced: Sequence[Version] = (),
    ) -> Iterator[Chunk | Finished]:
        """The text that was held back, if any, then Finished: call once, with a `reason`.

        The answer is `text`, by default what the target has said. `plain_pass_s` are the seconds of
        a pass of the target over one token, None where they were not measured.
        """
        assert self.reason is not None
        text = text or self.text
        self._clock()
        rest = text.finish(cut=self.reason != "stop")
        tokens = tuple(text.tokens)
        self._count(text, len(tokens))
        self.notices.extend(self._remarks(text))
        self.stats.plain_tokens_per_s = self._plain_tokens_per_s(plain_pass_s)
        stats = self.stats.snapshot()
        if any(rest):
            yield Chunk(rest.text, (), stats, unverified, rest.reasoning)
        yield Finished(
            self.reason,
            text.text,
            tokens,
            stats,
            self.error,
            tuple(dict.fromkeys(self.notices)),
            tuple(self._logprobs[: len(tokens)]),
            unverified,
            tuple(replaced),
            rule,
            text.reasoning,
            text.answer_at,
        )

    def _count(self, text: AnswerText, n_tokens: int) -> None:
        self.stats.completion_tokens = n_tokens
        self.stats.reasoning_tokens = text.answer_at
        if self.stats.answer_s is None and text.text:
            self.stats.answer_s = time.perf_counter() - self._started

    def _remarks(self, text: AnswerText) -> Iterator[str]:
        """What a person should know of an answer that a thought took the place of."""
        if text.called is not None:
            yield f"the model called the tool {text.called}, which no answer here can do: left out"
        if self.reason == "length" and text.answer_at and not text.text:
            yield f"all {text.answer_at} tokens went into thinking: raise --max-tokens"

    def _clock(self) -> None:
        if self._first_at is None:
            return
        self.stats.decode_s = time.perf_counter() - self._first_at
        self.stats.draft_s = self._draft_s() - self._draft_start
        if self._keeps_verify_s:
            self.stats.verify_s = self._target_s() - self._target_start

    def _draft_s(self) -> float:
        return sum(drafter.draft_s for drafter in self._drafters)

    def _plain_tokens_per_s(self, plain_pass_s: float | None) -> float | None:
        if not (self.stats.by_drafter or self.stats.drafted):
            return self.stats.tokens_per_s  # nobody drafted: this was the target alone
        return 1 / plain_pass_s if plain_pass_s else None


def check_max_tokens(max_tokens: int | None) -> None:
    """Raises ValueError for a length below 1; None is no limit."""
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}: an answer has 1 token at least")
