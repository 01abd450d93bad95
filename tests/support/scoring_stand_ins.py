"""Servers with the scoring interfaces of SGLang and vLLM, by their documented shapes.

Their model is any function from token ids to logits. `fault` is what some server has been seen to
do; it shows from the request after the first `healthy` ones on.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import uvicorn
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from support.loopback import listening

Fault = Literal["none", "shifted", "short", "null", "stale", "tempered", "other ids", "no tops"]
Rows = Callable[[list[int], int], NDArray[np.float32]]
"""Logits after each of the last n tokens, shape (n, n_vocab)."""


@dataclass
class ScoringStandIn:
    rows: Rows
    tokenize: Callable[[str], list[int]]
    count_chat: Callable[[list[dict[str, str]]], int]
    fault: Fault = "none"
    healthy: int = 0
    most: int = 20
    """Most probable tokens that it tells."""
    scale_out: bool = False
    eos: int | None = None
    incremental: bool = False
    """Whether events of SGLang bring only what is new."""
    url: str = ""
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(3)
        self._scores: list[NDArray[np.float64]] = []

    @property
    def faulty(self) -> bool:
        return self.fault != "none" and len(self.requests) > self.healthy

    def has(self, fault: Fault) -> bool:
        return self.faulty and self.fault == fault

    def logprobs(self, tokens: list[int], last: int) -> NDArray[np.float64]:
        logits = self.rows(tokens, last).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        found: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return found

    def draw(self, row: NDArray[np.float64], sampling: dict[str, Any]) -> int:
        if sampling["temperature"] == 0:
            return int(row.argmax())
        p = np.exp(row / sampling["temperature"])
        return int(self._rng.choice(len(p), p=p / p.sum()))

    def top(self, row: NDArray[np.float64], n: int) -> list[int]:
        return [int(i) for i in (-row).argsort(kind="stable")[:n]]

    def told(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-probabilities of what it says, as it reports them."""
        if not self.has("tempered"):
            return row
        scaled = row / 0.5
        told: NDArray[np.float64] = scaled - np.log(np.exp(scaled).sum())
        return told

    def generate(
        self, tokens: list[int], sampling: dict[str, Any], n: int, ends: bool
    ) -> Iterator[tuple[int, NDArray[np.float64], bool]]:
        """Token, the row it is from, whether it is the last."""
        for i in range(n):
            row = self.logprobs(tokens, 1)[0]
            token = self.draw(row, sampling)
            tokens = [*tokens, token]
            last = i == n - 1 or (ends and token == self.eos)
            yield token, row, last
            if last:
                return


async def events(contents: Iterable[dict[str, Any]]) -> AsyncIterator[str]:
    for content in contents:
        yield f"data: {json.dumps(content)}\n\n"
        await asyncio.sleep(0)
    yield "data: [DONE]\n\n"


def sglang_app(server: ScoringStandIn) -> Starlette:
    def entry(row: NDArray[np.float64], token: int) -> list[Any]:
        return [float(row[token]), token, None]

    def tops(row: NDArray[np.float64], n: int) -> list[list[Any]]:
        return [entry(row, token) for token in server.top(row, n)]

    def inputs(tokens: list[int], start: int, n: int) -> dict[str, Any]:
        """What is told of a prompt from `start` on, whose own entry has no log-probability."""
        scored = tokens[start + 1 :]
        rows = server.logprobs(tokens[:-1], len(scored)) if scored else np.empty((0, 1))
        ids = [t + 1 for t in scored] if server.has("other ids") else scored
        found: list[list[Any]] = [[None, tokens[start], None]]
        found += [[float(row[t]), i, None] for row, t, i in zip(rows, scored, ids, strict=True)]
        best: list[Any] = [None, *(tops(row, n) for row in rows)]
        if server.has("short"):
            found, best = found[:-1], best[:-1]
        if server.has("shifted"):
            found.insert(0, [None, tokens[start], None])
            found.pop()
        if server.has("null"):
            return {"input_token_logprobs": None, "input_top_logprobs": None}
        if server.has("no tops"):
            best = []
        return {"input_token_logprobs": found, "input_top_logprobs": best if n else None}

    async def generate(request: Request) -> Response:
        body = await request.json()
        server.requests.append(("/generate", body))
        n, sampling = body.get("top_logprobs_num", 0), body["sampling_params"]
        if n > server.most:
            return JSONResponse({"error": {"message": f"at most {server.most}"}}, 400)
        tokens = body.get("input_ids") or server.tokenize(body["text"])
        ends = not sampling["ignore_eos"]
        if body.get("stream"):
            return StreamingResponse(events(stream(tokens, sampling, n, ends)))
        start = body["logprob_start_len"]
        told = inputs(tokens, start, n) if start >= 0 else {}
        answers = []
        for _ in range(sampling.get("n", 1)):
            said = list(server.generate(tokens, sampling, sampling["max_new_tokens"], ends))
            answers.append({"text": "", "meta_info": {**told, **outputs(said, n)}})
        return JSONResponse(answers if len(answers) > 1 else answers[0])

    def outputs(said: list[Any], n: int) -> dict[str, Any]:
        rows = [server.told(row) for _, row, _ in said]
        ended = bool(said) and said[-1][2]
        stopped = bool(said) and said[-1][0] == server.eos
        finish = {"type": "stop" if stopped else "length"} if ended else None
        return {
            "completion_tokens": len(said),
            "finish_reason": finish,
            "output_token_logprobs": [entry(row, s[0]) for row, s in zip(rows, said, strict=True)],
            "output_top_logprobs": [tops(row, n) for row in rows] if n else None,
        }

    def stream(
        tokens: list[int], sampling: dict[str, Any], n: int, ends: bool
    ) -> Iterator[dict[str, Any]]:
        said: list[Any] = []
        for step in server.generate(tokens, sampling, sampling["max_new_tokens"], ends):
            said.append(step)
            meta = outputs(said, n)
            if server.incremental:
                meta |= {k: v[-1:] for k, v in meta.items() if isinstance(v, list)}
            yield {"text": "", "meta_info": meta}

    return _app(server, "sglang", [Route("/generate", generate, methods=["POST"])])


def vllm_app(server: ScoringStandIn) -> Starlette:
    def named(row: NDArray[np.float64], n: int) -> dict[str, float]:
        return {f"token_id:{t}": float(row[t]) for t in server.top(row, n)}

    def prompt(tokens: list[int], n: int) -> list[Any] | None:
        rows = server.logprobs(tokens[:-1], len(tokens) - 1)
        if server.has("stale"):  # of another request's tokens
            rows, tokens = rows[::-1], [tokens[0], *[(t + 1) % rows.shape[1] for t in tokens[1:]]]
        found: list[Any] = [None]
        for row, token in zip(rows, tokens[1:], strict=True):
            rank = int((row >= row[token]).sum())
            entry = {str(token): {"logprob": float(row[token]), "rank": rank}}
            for place, best in enumerate(server.top(row, n), start=1):
                entry[str(best)] = {"logprob": float(row[best]), "rank": place}
            found.append(entry)
        if server.has("short"):
            found.pop()
        if server.has("shifted"):
            found = [None, *found[:-1]]
        return None if server.has("null") else found

    def choice(said: list[Any], n: int, index: int = 0) -> dict[str, Any]:
        rows = [server.told(row) for _, row, _ in said]
        logprobs = {
            "tokens": [f"token_id:{token}" for token, _, _ in said],
            "token_logprobs": [float(r[s[0]]) for r, s in zip(rows, said, strict=True)],
            "top_logprobs": None if server.has("no tops") else [named(r, n) for r in rows],
        }
        ids = [token for token, _, _ in said]
        ended = bool(said) and said[-1][2]
        finish = ("stop" if ids[-1] == server.eos else "length") if ended else None
        return {
            **{"index": index, "text": "", "token_ids": ids, "finish_reason": finish},
            **{"logprobs": logprobs},
        }

    async def completions(request: Request) -> Response:
        body = await request.json()
        server.requests.append(("/v1/completions", body))
        n = max(body["logprobs"], body.get("prompt_logprobs") or 0)
        if n > server.most:
            return JSONResponse({"error": {"message": f"max is {server.most}"}}, 400)
        given = body["prompt"]
        tokens = server.tokenize(given) if isinstance(given, str) else given
        ends = not body["ignore_eos"]
        if body.get("stream"):
            steps = server.generate(tokens, body, body["max_tokens"], ends)
            parts = ({"choices": [choice([step], body["logprobs"])]} for step in steps)
            return StreamingResponse(events(parts))
        choices = []
        for i in range(body.get("n", 1)):
            said = list(server.generate(tokens, body, body["max_tokens"], ends))
            shown = [t + 1 for t in tokens] if server.has("other ids") else tokens
            choices.append({**choice(said, body["logprobs"], i), "prompt_token_ids": shown})
        if body.get("prompt_logprobs") is not None:
            choices[0]["prompt_logprobs"] = prompt(tokens, body["prompt_logprobs"])
        return JSONResponse({"choices": choices})

    async def tokens_in(request: Request) -> Response:
        body = await request.json()
        server.requests.append(("/inference/v1/generate", body))
        if not server.scale_out:
            return JSONResponse({"error": {"message": "Scale-out endpoints are disabled."}}, 403)
        sampling, tokens = body["sampling_params"], body["token_ids"]
        candidates = sampling.get("prompt_logprob_token_ids", [])
        start = sampling.get("prompt_logprob_start", len(tokens) - 1)
        assert len(candidates) == len(tokens) - 1 - start, "one row for each token behind start"
        told = None
        if candidates and not server.has("null"):
            rows = server.logprobs(tokens[:-1], len(candidates))
            matrix = np.array(
                [[row[t] for t in ids] for row, ids in zip(rows, candidates, strict=True)],
                dtype=np.float32,
            )
            file = io.BytesIO()
            np.save(file, matrix)
            told = base64.b64encode(file.getvalue()).decode()
        said = next(server.generate(tokens, sampling, 1, ends=False))
        content = [{"token": f"token_id:{said[0]}", "logprob": float(said[1][said[0]])}]
        choice = {"index": 0, "token_ids": [said[0]], "logprobs": {"content": content}}
        return JSONResponse({"choices": [choice], "prompt_token_id_logprobs": told})

    return _app(
        server,
        "vllm",
        [
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/inference/v1/generate", tokens_in, methods=["POST"]),
        ],
    )


def _app(server: ScoringStandIn, engine: str, routes: list[Route]) -> Starlette:
    async def models(request: Request) -> Response:
        model = {"id": "big", "owned_by": engine, "max_model_len": 2048}
        return JSONResponse({"object": "list", "data": [model]})

    async def chat(request: Request) -> Response:
        body = await request.json()
        server.requests.append(("/v1/chat/completions", body))
        if body.get("stream"):
            return StreamingResponse(iter([_SAID_IN_CHAT]))
        n = server.count_chat(body["messages"])
        return JSONResponse({"choices": [], "usage": {"prompt_tokens": n, "completion_tokens": 1}})

    return Starlette(
        routes=[
            *routes,
            Route("/v1/models", models, methods=["GET"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


_SAID_IN_CHAT = (
    'data: {"choices":[{"index":0,"delta":{"content":"its own words"},"finish_reason":"stop"}]}\n\n'
    "data: [DONE]\n\n"
)


@contextmanager
def running(server: ScoringStandIn, engine: str) -> Iterator[ScoringStandIn]:
    """The stand-in on loopback, at `server.url`."""
    app = sglang_app(server) if engine == "sglang" else vllm_app(server)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="off"
    )
    in_thread = uvicorn.Server(config)
    in_thread.force_exit = True  # it waits for no request that is under way when it stops
    with listening(in_thread) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server
