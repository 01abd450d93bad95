"""llama-server as a side: the same prompt ids, its own way of answering."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import httpx
from pydantic import BaseModel, ValidationError

from specchat.backends.runtime import Runtime
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.report import Measured, OwnTiming
from specchat.benchmark.sides import Answer, Stopwatch, digest
from specengine.chat.chat_template import Turn, encode_chat
from specengine.sampling import SamplingParams

PEER = "llama-server"
PEER_ALONE = "llama-server-alone"

_DATA = "data: "
# The settings that mean the same there, by the same names.
_SAMPLING = {"temperature", "top_k", "top_p", "min_p"}


class _Timings(BaseModel):
    prompt_ms: float
    predicted_n: int
    """Tokens, an end token included."""
    predicted_ms: float
    """From the first token to the last."""
    draft_n: int = 0
    draft_n_accepted: int = 0


class _Event(BaseModel):
    """One line of the stream; the last one has `stop` and the timings."""

    content: str = ""
    stop: bool = False
    stop_type: str = ""
    timings: _Timings | None = None


class PeerSide:
    """Answers through `/completion` of a running llama-server."""

    def __init__(
        self,
        name: str,
        description: str,
        client: httpx.AsyncClient,
        runtime: Runtime,
        max_tokens: int,
        last_words: Callable[[], str],
    ) -> None:
        """`runtime` renders the prompts: the peer gets the token ids that our own pair gets.
        `last_words`: the end of its log, asked for where it fails.
        """
        self.name = name
        self.description = description
        self._runtime = runtime
        self._max_tokens = max_tokens
        self._client = client
        self._last_words = last_words
        self._fresh = True

    async def forget(self) -> None:
        self._fresh = True

    async def answer(self, turns: Sequence[Turn], sampling: SamplingParams) -> Answer:
        prompt = await self._runtime.run(
            lambda pair: encode_chat(pair.chat_template, turns, pair.vocab)
        )
        clock = Stopwatch()
        text = ""
        last = _Event()
        try:
            async for last in self._stream(prompt, sampling):
                if not last.stop:
                    clock.token()
                text += last.content
        except (httpx.HTTPError, ValidationError) as error:
            reason = f"{error or type(error).__name__}; its log ends: {self._last_words()}"
            raise BenchmarkError(f"{self.name} does not answer: {reason}") from error
        ttft_s, decode_s = clock.stop()
        self._fresh = False
        if last.timings is None:
            raise BenchmarkError(
                f"{self.name} broke off in the middle of an answer; its log ends: "
                f"{self._last_words()}"
            )
        return Answer(
            text, None, _measured(text, len(prompt), last, last.timings, ttft_s, decode_s)
        )

    async def _stream(self, prompt: list[int], sampling: SamplingParams) -> AsyncIterator[_Event]:
        body = {
            "prompt": prompt,
            "n_predict": self._max_tokens,
            "stream": True,
            "cache_prompt": not self._fresh,
            **sampling.model_dump(include=_SAMPLING),
        }
        async with self._client.stream("POST", "/completion", json=body) as response:
            if response.is_error:
                await response.aread()
                raise BenchmarkError(f"{self.name} refuses a prompt: {response.text[:200]}")
            async for line in response.aiter_lines():
                if line.startswith(_DATA):
                    yield _Event.model_validate_json(line.removeprefix(_DATA))


def _measured(
    text: str, prompt_tokens: int, last: _Event, own: _Timings, ttft_s: float, decode_s: float
) -> Measured:
    ended = last.stop_type == "eos"
    tokens = own.predicted_n - 1 if ended else own.predicted_n
    return Measured(
        prompt_tokens=prompt_tokens,
        completion_tokens=tokens,
        finish_reason="stop" if ended else "length",
        ttft_s=ttft_s,
        decode_s=decode_s,
        own=OwnTiming(prompt_s=own.prompt_ms / 1000, decode_s=own.predicted_ms / 1000),
        # It does not tell; each pass gives one token that was not drafted, the prompt's too.
        target_passes=max(0, own.predicted_n - 1 - own.draft_n_accepted),
        drafted=own.draft_n,
        accepted=own.draft_n_accepted,
        digest=digest(text),
    )
