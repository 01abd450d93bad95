"""Answers of the served model as text, for all protocols that speak text."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request

from specchat.server.refusal import Refusal
from specchat.server.service import Service
from specchat.server.sessions import Session
from specengine.chat.answer_text import AnswerText
from specengine.core.drafter import Drafter
from specengine.core.logprobs import TokenLogprobs
from specengine.core.tokens import as_tokens
from specengine.drafters.lookup import LookupDrafter
from specengine.drafters.suffix_index import LONGEST_MATCH
from specengine.sampling import SamplingParams
from specengine.sampling.grammar import Grammar
from specengine.stream.committed import Ended
from specengine.stream.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Question:
    """`sampling` has a seed. `logprobs`: how many alternatives to tell with each token's.
    `prediction` is what the answer may say: a draft, which changes nothing of it.
    """

    prompt: Sequence[int]
    sampling: SamplingParams
    max_tokens: int | None = None
    stops: Sequence[str] = ()
    grammar: Grammar | None = None
    logprobs: int | None = None
    prediction: Sequence[int] = ()


class Piece(NamedTuple):
    """What can be shown now: complete characters, and what is told of their tokens."""

    text: str
    logprobs: Sequence[TokenLogprobs] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `cached` of the prompt's were not evaluated again; `accepted` and `rejected` are
    draft tokens.
    """

    prompt: int
    cached: int
    answers: int
    accepted: int
    rejected: int


class Reply:
    """One answer, which begins with the first look at its pieces."""

    def __init__(self, service: Service, session: Session, question: Question) -> None:
        self._service = service
        self._session = session
        self.question = question
        self.text = AnswerText(service.model.vocab, question.stops)
        self.logprobs: list[TokenLogprobs] = []
        """Of the tokens that were told so far. A stop string may cut one that was told already."""
        self.reason = "stop"
        """`length` where a limit ended it."""
        self.cached = self.accepted = self.rejected = 0
        self.spoke_ns: int | None = None
        """When its first tokens came, by `time.perf_counter_ns`."""
        self._untold: list[TokenLogprobs] = []

    async def pieces(self) -> AsyncIterator[Piece | None]:
        """What there is to show, as it comes; None after a while without anything.

        Raises Refusal, 503, where the model fails or the server ends.
        """
        question, service, session, text = self.question, self._service, self._session, self.text
        session.transcript = Transcript(question.prompt)
        answer = service.begin(
            session,
            session.transcript.copy(),
            question.sampling,
            question.max_tokens,
            grammar=question.grammar,
            logprobs=question.logprobs,
            drafter=_drafter(question),
        )
        while True:
            came = await answer.next(service.limits.ping_s)
            if came is None:
                yield None
                continue
            event, _ = came
            if isinstance(event, Ended):
                break
            self.spoke_ns = self.spoke_ns or time.perf_counter_ns()
            self.cached = answer.generation.cached
            self.accepted += event.accepted
            self.rejected += event.drafted - event.accepted
            shown = "".join(text.add(token).text for token in event.tokens)
            self._untold += event.logprobs
            if piece := self._piece(shown):
                yield piece
            if text.stopped:
                service.model.scheduler.cancel(answer.generation)
                return
        if event.reason in ("error", "shutdown"):
            raise Refusal(503, event.reason, event.error or "the server is shutting down")
        self.reason = "length" if event.reason == "length" else "stop"
        if piece := self._piece(text.finish(cut=event.reason != "stop").text, is_last=True):
            yield piece

    def _piece(self, shown: str, *, is_last: bool = False) -> Piece | None:
        """With what there is to tell of the tokens before the cut, once something of them shows."""
        told: list[TokenLogprobs] = []
        if shown or is_last or self.text.stopped:
            n = len(self.text.tokens)
            told = self._untold[: max(0, n - len(self.logprobs))]
            del self.logprobs[n:]
            self.logprobs += told
            self._untold.clear()
        return Piece(shown, told) if shown or told else None


class Exchange:
    """The answers to one request, `n` to each question, one after another in a session that a later
    request may go on from: what their prompts share is evaluated once.
    """

    def __init__(
        self, service: Service, owner: str, questions: Sequence[Question], n: int = 1
    ) -> None:
        """Raises Refusal, 429, where the owner has too many sessions at work."""
        self._service = service
        self._session = session = service.sessions.resume(owner, as_tokens(questions[0].prompt))
        session.connections += 1  # until it is closed
        self._n = n
        self.replies = [
            Reply(service, session, _branch(question, i))
            for question in questions
            for i in range(n)
        ]

    async def complete(self, request: Request) -> None:
        """All replies to their ends. Raises ClientDisconnect where nobody waits for them any more,
        and as `Reply.pieces`.
        """
        try:
            for reply in self.replies:
                async for _ in reply.pieces():
                    if await request.is_disconnected():
                        raise ClientDisconnect
        finally:
            self.close()

    def close(self) -> None:
        """Give up an answer that is still under way."""
        session = self._session
        session.connections -= 1
        session.touch()
        if session.answer is not None:
            self._service.model.scheduler.cancel(session.answer.generation)

    @property
    def usage(self) -> Usage:
        """So far; each prompt is counted once."""
        prompts = self.replies[:: self._n]
        return Usage(
            prompt=sum(len(reply.question.prompt) for reply in prompts),
            cached=sum(reply.cached for reply in prompts),
            answers=sum(reply.text.committed for reply in self.replies),
            accepted=sum(reply.accepted for reply in self.replies),
            rejected=sum(reply.rejected for reply in self.replies),
        )


def _branch(question: Question, i: int) -> Question:
    """The first is that of a request for one answer."""
    seed = ((question.sampling.seed or 0) + i) % 2**64
    return replace(question, sampling=question.sampling.model_copy(update={"seed": seed}))


def _drafter(question: Question) -> Drafter | None:
    if not question.prediction:
        return None
    drafter = LookupDrafter()
    # Behind the end of the prompt, so that it is found before anything was said.
    drafter.remember([[*question.prompt[-LONGEST_MATCH:], *question.prediction]])
    return drafter
