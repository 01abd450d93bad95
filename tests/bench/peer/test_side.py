"""llama-server as a side, over a server that says what a real one said."""

import json
from collections.abc import Callable
from typing import Any, cast

import httpx
import pytest

from peer.side import PeerSide
from specchat.backends.runtime import Runtime
from specchat.benchmark.errors import BenchmarkError
from specengine.chat.chat_template import Turn
from specengine.sampling import SamplingParams
from support.fakes import FakeVocab

SAMPLING = SamplingParams(temperature=0.8, top_k=7, top_p=0.9, min_p=0.1)
TIMINGS = {"prompt_n": 3, "prompt_ms": 60.0, "predicted_n": 6, "predicted_ms": 400.0}


class Template:
    """A pair as far as prompts go."""

    vocab = FakeVocab(26)
    chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"


class Runtimes:
    async def run(self, work: Callable[[Any], Any]) -> Any:
        return work(Template())


def stream(*events: dict[str, Any]) -> httpx.Response:
    body = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return httpx.Response(200, content=body.encode())


def tokens(*pieces: str) -> list[dict[str, Any]]:
    return [{"content": piece, "tokens": [1], "stop": False} for piece in pieces]


class Peer:
    """A side, and the bodies of the requests that it made."""

    def __init__(self, *responses: httpx.Response | Exception) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._responses = list(responses)
        client = httpx.AsyncClient(
            base_url="http://peer", transport=httpx.MockTransport(self._handle)
        )
        self.side = PeerSide(
            "peer", "", client, cast(Runtime, Runtimes()), 6, lambda: "out of memory"
        )

    def _handle(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/completion"
        self.bodies.append(json.loads(request.content))
        response = self._responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    async def answer(self, text: str = "abc") -> Any:
        return await self.side.answer([Turn("user", text)], SAMPLING)


def last(stop_type: str = "limit", **timings: int) -> dict[str, Any]:
    return {"content": "", "stop": True, "stop_type": stop_type, "timings": TIMINGS | timings}


async def test_it_gets_our_prompt_ids_and_sampling_and_leaves_the_rest_to_its_defaults() -> None:
    peer = Peer(stream(*tokens("a"), last()))
    await peer.answer("abc")
    assert peer.bodies == [
        {
            "prompt": [0, 1, 2],
            "n_predict": 6,
            "stream": True,
            "cache_prompt": False,
            "temperature": 0.8,
            "top_k": 7,
            "top_p": 0.9,
            "min_p": 0.1,
        }
    ]


async def test_its_counts_and_its_own_timings_are_kept() -> None:
    peer = Peer(stream(*tokens("x", "ế", "z"), last(draft_n=9, draft_n_accepted=3)))
    answer = await peer.answer()
    measured = answer.measured
    assert answer.text == "xếz"
    assert (measured.prompt_tokens, measured.completion_tokens) == (3, 6)
    assert (measured.drafted, measured.accepted, measured.target_passes) == (9, 3, 2)
    assert (measured.own.prompt_s, measured.own.decode_s) == (0.06, 0.4)
    assert measured.finish_reason == "length"
    assert measured.ttft_s > 0
    assert measured.decode_s > 0


async def test_an_end_token_is_no_token_of_the_answer() -> None:
    peer = Peer(stream(*tokens("x"), last("eos")))
    measured = (await peer.answer()).measured
    assert measured.completion_tokens == 5
    assert measured.finish_reason == "stop"


async def test_within_a_chat_its_cache_is_used_and_at_the_start_of_one_it_is_not() -> None:
    peer = Peer(*(stream(*tokens("x"), last()) for _ in range(3)))
    await peer.answer()
    await peer.answer()
    await peer.side.forget()
    await peer.answer()
    assert [body["cache_prompt"] for body in peer.bodies] == [False, True, False]


@pytest.mark.parametrize(
    ("response", "cause"),
    [
        (httpx.Response(400, json={"error": {"message": "too long"}}), "refuses.*too long"),
        (httpx.ConnectError("gone"), "does not answer: gone; its log ends: out of memory"),
        (stream(*tokens("x")), "broke off.*its log ends: out of memory"),
        (httpx.Response(200, content=b"data: {oops\n\n"), "does not answer"),
        (stream({"error": {"message": "out of memory"}}), "broke off"),
    ],
)
async def test_what_goes_wrong_is_said_in_one_line(
    response: httpx.Response | Exception, cause: str
) -> None:
    with pytest.raises(BenchmarkError, match=f"peer {cause}"):
        await Peer(response).answer()
