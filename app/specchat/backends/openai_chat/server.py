"""A target that answers whole chats and verifies nothing: its own words, as it streams them."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import httpx
from pydantic import ValidationError

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Backend, Emit
from specchat.backends.openai_chat.prediction import may_be_predicted, text_to_edit
from specchat.backends.openai_chat.protocol import (
    SAMPLING,
    Event,
    ListedModel,
    ModelList,
    chat_request,
)
from specchat.backends.support import Support
from specchat.wire.address import Address
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.http import check, explain, json_of, new_client
from specchat.wire.keys import Key
from specchat.wire.network import NetworkThread
from specchat.wire.sse import EventReader
from specengine.chat.chat_template import Turn
from specengine.chat.conversation import alternating
from specengine.chat.stop import StopFilter
from specengine.core.cancel import AbortFlag
from specengine.core.events import Chunk, Finished, FinishReason, Progress
from specengine.core.statistics import Statistics

_ATTEMPTS = 4  # at a server that is busy
_POLL_S = 0.05
_SHOWN_MODELS = 8
_REASONS: dict[str, FinishReason] = {"length": "length"}  # every other end is the model's own
_TOOL = "the target calls a tool, and specchat gives it none"
_LONG_TOKEN = 32  # bytes; answers consist of shorter ones
_FAILURES = {
    "content_filter": "the server's filter has cut the answer",
    "tool_calls": _TOOL,
    "function_call": _TOOL,
    "error": "the server says that the answer failed",
    "abort": "the server gave up the answer",
}


@dataclass(frozen=True, slots=True)
class _Failed:
    """The stream ended before the answer did."""

    message: str


@dataclass(frozen=True, slots=True)
class _Done:
    """The stream has ended as it should."""


_Arrival = Event | Progress | _Failed | _Done


class ChatClient:
    """A server that speaks the OpenAI protocol; belongs to one event loop."""

    def __init__(self, address: Address, key: Key | None) -> None:
        self.address = address
        self._client = new_client(address, key)

    async def models(self) -> list[ListedModel]:
        """What the server lists. Raises RemoteError if it speaks another protocol."""
        response = await self._client.get(self.address.url("/v1/models"))
        await check(response)
        try:
            return ModelList.model_validate(json_of(response)).data
        except ValidationError:
            url = self.address.url("/v1/models")
            raise RemoteError(f"{url} is not a list of models: is this an LLM server?") from None

    async def stream(self, body: Mapping[str, object]) -> AsyncIterator[Event | None]:
        """The events of an answer, then None if the server says that it is complete.

        Raises RemoteError, TryAgainError, httpx.TransportError.
        """
        url = self.address.url("/v1/chat/completions")
        async with self._client.stream("POST", url, json=body) as response:
            await check(response)
            reader = EventReader()
            async for chunk in response.aiter_raw():
                for data in reader.feed(chunk):
                    if data == "[DONE]":
                        yield None
                        return
                    yield _event(data)

    async def close(self) -> None:
        await self._client.aclose()


def _event(data: str) -> Event:
    try:
        return Event.model_validate_json(data)
    except ValidationError:
        raise RemoteError("the server sends something that is not a chat completion") from None


async def choose_model(client: ChatClient) -> ListedModel:
    """The model that the address names, else the only one there is. Raises RemoteError."""
    named = client.address.model
    try:
        models = await client.models()
    except RemoteError:
        if named is None:
            raise
        models = []
    if named is not None:
        return next((m for m in models if m.id == named), ListedModel(id=named))
    if len(models) == 1:
        return models[0]
    shown = ", ".join(model.id for model in models[:_SHOWN_MODELS]) or "none"
    base = client.address.base
    raise RemoteError(f"{base} has several models ({shown}): name one, as in {base}#MODEL")


class ChatServer(Backend[Sequence[Turn]]):
    """A target that answers by itself: no pair is loaded here."""

    support = Support(
        {*SAMPLING, "logit_bias", "max_tokens", "stop", "think", "drafting"},
        refused={
            "grammar": "servers of the OpenAI protocol take none, nor a --json-schema",
            "logprobs": "servers of the OpenAI protocol are not asked for any",
            "raw": "servers of the OpenAI protocol take chats only",
        },
        moot={
            **dict.fromkeys(
                ("rule", "drafter", "draft_max", "draft_length"),
                "nothing is drafted for this server",
            ),
            "reproducible": "this server does not say whether it repeats a text bit for bit",
        },
    )

    def __init__(
        self,
        client: ChatClient,
        model: str,
        network: NetworkThread,
        abort: AbortFlag,
        *,
        why: str | None = None,
        predicts: bool = False,
    ) -> None:
        """`why`: the reason that a person is given for answers without drafts. `predicts`: send
        the text that is to be edited as a prediction, as long as the server makes use of it.
        """
        self.notices = []
        self.model = model
        self.why = why or "its server cannot verify drafts"
        self._client = client
        self._network = network
        self._abort = abort
        self._predicts = predicts

    def encode(
        self, turns: Sequence[Turn], options: AnswerOptions
    ) -> tuple[Sequence[Turn], tuple[str, ...]]:
        return alternating(turns), ()

    def answer(
        self, prompt: Sequence[Turn], options: AnswerOptions, emit: Emit
    ) -> Iterator[Progress | Chunk | Finished]:
        """The target's answer, from waiting to its end."""
        prediction = None
        if self._predicts and may_be_predicted(options):
            prediction = text_to_edit(prompt)
        body = chat_request(
            self._client.address,
            self.model,
            prompt,
            options,
            prediction=prediction,
        )
        arrivals: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
        task = self._network.start(
            self._receive(body, arrivals), lambda cause: arrivals.put(_Failed(cause))
        )
        answer = _Answer(options.stop, options.max_tokens)
        try:
            while not answer.ended:
                if self._abort.is_set():
                    answer.end("cancelled")
                    break
                try:
                    arrival = arrivals.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                yield from answer.take(arrival)
        finally:
            task.cancel()
        if prediction is not None and answer.reason != "cancelled":
            self._predicts = answer.prediction is not None
        for event in answer.finish():
            if isinstance(event, Finished) and options.drafting:
                alone = f"{self.model} answered alone: {self.why}"
                event = replace(event, notices=(*event.notices, alone))
            yield event

    def close(self) -> None:
        self._network.call(self._client.close())

    async def _receive(
        self, body: dict[str, object], arrivals: queue.SimpleQueue[_Arrival]
    ) -> None:
        """Ask, again while the server is busy; what has begun is never asked for twice."""
        has_begun, failures = False, 0
        while True:
            try:
                async for event in self._client.stream(body):
                    has_begun = True
                    arrivals.put(event or _Done())
                arrivals.put(_Failed("the stream ended before the answer: it is incomplete"))
                return
            except TryAgainError as error:
                failures += 1
                if failures == _ATTEMPTS:
                    arrivals.put(_Failed(str(error)))
                    return
                arrivals.put(Progress("wait", 0, 0, str(error)))
                await asyncio.sleep(error.after_s)
            except (RemoteError, ValueError) as error:
                # Models that take no prediction refuse it.
                if not has_begun and body.pop("prediction", None) is not None:
                    continue
                arrivals.put(_Failed(str(error)))
                return
            except httpx.TransportError as error:
                arrivals.put(_Failed(explain(error, self._client.address)))
                return


@dataclass
class _Answer:
    """What has come of an answer."""

    stop: Sequence[str]
    max_tokens: int | None
    stats: Statistics = field(
        default_factory=lambda: Statistics(target_passes=None, verify_s=None, is_remote=True)
    )
    reason: FinishReason | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        self._filter = StopFilter(self.stop)
        self._text: list[str] = []
        self._thought: list[str] = []
        self._events = self._bytes = 0
        """Of the answer itself: of thoughts, some servers allow as many as there are."""
        self._usage_seen = False
        self.prediction: tuple[int, int] | None = None
        """Accepted and rejected tokens of the prediction, if the server counts them."""
        self._started = time.perf_counter()
        self._first_at: float | None = None
        self.ended = False

    def take(self, arrival: _Arrival) -> Iterator[Progress | Chunk]:
        if isinstance(arrival, Progress):
            yield arrival
            return
        if isinstance(arrival, _Failed):
            # With a reason, only the end of the stream was missing.
            self.end("error" if self.reason is None else self.reason, arrival.message)
            return
        if isinstance(arrival, _Done):
            self.end(self.reason or "stop")
            return
        if arrival.error_text is not None:
            self.end("error", arrival.error_text)
            return
        if arrival.usage is not None:
            self._usage_seen = True
            self.stats.prompt_tokens = arrival.usage.prompt_tokens
            self.stats.completion_tokens = arrival.usage.completion_tokens
            if arrival.usage.prediction is not None:
                self.prediction = arrival.usage.prediction
                self.stats.accepted, rejected = self.prediction
                self.stats.drafted = self.stats.accepted + rejected
            if (told := arrival.usage.reasoning_tokens) is not None:
                self.stats.reasoning_tokens = told
        for choice in arrival.choices[:1]:
            yield from self._show(self._said(choice.delta.content or ""), choice.delta.thought)
            if (finish := choice.finish_reason) in _FAILURES:
                self.end("error", f"{_FAILURES[finish]} ({finish})")
            elif finish is not None:
                self.reason = _REASONS.get(finish, "stop")
        if self._filter.cut is not None:
            self.end("stop")

    def end(self, reason: FinishReason, error: str | None = None) -> None:
        self.reason, self.ended = reason, True
        self.error = error if reason == "error" else None

    def finish(self) -> Iterator[Chunk | Finished]:
        assert self.reason is not None
        yield from self._show(self._filter.finish().decode())
        notices: tuple[str, ...] = ()
        if self.prediction is not None and self.prediction != (0, 0):
            accepted, rejected = self.prediction
            notices = (
                f"{accepted} predicted tokens were accepted; {rejected} were rejected, and billed",
            )
        text, thought, stats = "".join(self._text), "".join(self._thought), self.stats.snapshot()
        self.stats.plain_tokens_per_s = self.stats.tokens_per_s  # it was the target alone
        yield Finished(self.reason, text, (), stats, self.error, notices, reasoning=thought.strip())

    def _said(self, content: str) -> str:
        """What of `content` can be shown now."""
        if not content:
            return ""
        self._count(content)
        return self._filter.feed(content.encode("utf-8", "replace")).decode()

    def _count(self, content: str) -> None:
        """What an event holds is a token, a piece of one, or several: a server goes on without end
        where neither can explain how much it says.
        """
        self._events += 1
        self._bytes += len(content.encode("utf-8", "replace"))
        most = self.max_tokens
        if most is not None and self._events > most and self._bytes > most * _LONG_TOKEN:
            self.end("error", f"the server says more than the {most} tokens that were asked for")

    def _show(self, text: str, thought: str = "") -> Iterator[Chunk]:
        if not text and not thought:
            return
        now = time.perf_counter()
        if self._first_at is None:
            self._first_at = now
            self.stats.prompt_s = self.stats.ttft_s = now - self._started
        self.stats.decode_s = now - self._first_at
        if not self._usage_seen:
            self.stats.completion_tokens += 1  # an event is a token, or nearly
            self.stats.reasoning_tokens += bool(thought)
        if text and self.stats.answer_s is None:
            self.stats.answer_s = now - self._started
        self._text.append(text)
        self._thought.append(thought)
        yield Chunk(text, (), self.stats.snapshot(), reasoning=thought)
