"""SGLang's `/generate`.

Scores begin at `logprob_start_len`, whose own entry has no log-probability: with the last token of
the text there, the draft tokens follow. What lies before that position comes from the prefix cache.
Log-probabilities are those of the request's temperature, so it is 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from specchat.backends.bounds import Count, Logprob, TokenId
from specchat.backends.scoring.dialect import (
    RAW,
    Drawing,
    Part,
    Request,
    Scored,
    ServerToken,
    parsed,
    require,
)
from specengine.stream.scoring import Drawn, ScoresError, TopN

Entry = tuple[Logprob | None, TokenId, Any]
"""Log-probability, id, and the token's text or null."""


class _Finish(Part):
    type: str
    message: str | None = None


class _Meta(Part):
    input_token_logprobs: list[Entry] | None = None
    input_top_logprobs: list[list[Entry] | None] | None = None
    output_token_logprobs: list[Entry] | None = None
    output_top_logprobs: list[list[Entry] | None] | None = None
    completion_tokens: Count = 0
    finish_reason: _Finish | None = None


class _Answer(Part):
    meta_info: _Meta


class SGLang:
    name = "SGLang"
    start_offset = True
    cached = True
    takes_seed = False

    def score(self, text: Sequence[int], draft: Sequence[int], top_n: int) -> Request:
        return _request([*text, *draft], RAW, 1, top_n, start=len(text) - 1)

    def scored(self, answer: Any, text: Sequence[int], draft: Sequence[int], top_n: int) -> Scored:
        meta = parsed(_Answer, answer, "scores").meta_info
        entries = meta.input_token_logprobs or []
        expected = [text[-1], *draft]
        require([entry[1] for entry in entries] == expected, "scores of other tokens")
        tops = meta.input_top_logprobs or []
        require(top_n == 0 or len(tops) == len(expected), "most probable tokens are missing")
        said = _said(meta, top_n)
        require(len(said) == 1, "no token after the draft")
        rows = [_top(top, top_n) for top in tops[1:]] + [said[0].top] if top_n else []
        return Scored(tuple(_logprob(entry) for entry in entries[1:]), tuple(rows), said[0])

    def draw(self, text: Sequence[int], n: int) -> Request:
        request = _request(text, RAW, 1, 0)
        request.body["sampling_params"]["n"] = n
        return request

    def drawn(self, answer: Any, n: int) -> list[Drawn]:
        answers = answer if isinstance(answer, list) else [answer]
        said = [s for a in answers for s in _said(parsed(_Answer, a, "a draw").meta_info, 0)]
        require(len(said) == n, f"{len(said)} draws of {n}")
        return [Drawn(s.token, math.exp(s.logprob)) for s in said]

    def stream(self, text: Sequence[int], drawing: Drawing, max_tokens: int, top_n: int) -> Request:
        request = _request(text, drawing, max_tokens, top_n)
        request.body["stream"] = True
        return request

    def events(self, top_n: int) -> _Events:
        return _Events(top_n)

    def encode(self, text: str) -> Request:
        request = _request([], RAW, 1, 0, start=0)
        del request.body["input_ids"]
        request.body["text"] = text
        return request

    def encoded(self, answer: Any) -> list[int]:
        entries = parsed(_Answer, answer, "ids").meta_info.input_token_logprobs
        return [entry[1] for entry in entries or []]


class _Events:
    def __init__(self, top_n: int) -> None:
        self._top_n = top_n
        self._seen = 0
        self.finished = False

    def read(self, data: str) -> list[ServerToken]:
        content = json.loads(data)
        if isinstance(content, dict) and "error" in content:
            raise ScoresError(f"the server reports an error: {content['error']}")
        meta = parsed(_Answer, content, "an event").meta_info
        if meta.finish_reason is not None:
            require(meta.finish_reason.type != "abort", f"aborted: {meta.finish_reason.message}")
            self.finished = True
        said = _said(meta, self._top_n)
        if len(said) == meta.completion_tokens:  # some servers repeat all of it in each event
            said = said[self._seen :]
        self._seen += len(said)
        return said


def _request(
    tokens: Sequence[int], drawing: Drawing, max_tokens: int, top_n: int, start: int = -1
) -> Request:
    params = drawing.params
    sampling: dict[str, Any] = {
        "temperature": params.temperature,
        "top_k": params.top_k or -1,
        "top_p": params.top_p or 1e-6,
        "min_p": params.min_p,
        "repetition_penalty": params.repeat_penalty,
        "frequency_penalty": params.frequency_penalty,
        "presence_penalty": params.presence_penalty,
        "max_new_tokens": max_tokens,
        "ignore_eos": drawing.ignore_end,
    }
    if params.logit_bias:
        sampling["logit_bias"] = {str(t): max(b, -1e4) for t, b in params.logit_bias.items()}
    return Request(
        "/generate",
        {
            "input_ids": list(tokens),
            "sampling_params": sampling,
            "return_logprob": True,
            "logprob_start_len": start,
            "top_logprobs_num": top_n,
        },
    )


def _said(meta: _Meta, top_n: int) -> list[ServerToken]:
    entries = meta.output_token_logprobs or []
    tops = (meta.output_top_logprobs if top_n else None) or [None] * len(entries)
    require(len(tops) == len(entries), "most probable tokens are missing")
    return [
        ServerToken(entry[1], _logprob(entry), _top(top, top_n))
        for entry, top in zip(entries, tops, strict=True)
    ]


def _top(entries: list[Entry] | None, top_n: int) -> TopN:
    best = sorted((-_logprob(entry), entry[1]) for entry in entries or [])
    return TopN(tuple((token, -surprise) for surprise, token in best)).checked(top_n)


def _logprob(entry: Entry) -> float:
    require(entry[0] is not None, "a log-probability is missing")
    assert entry[0] is not None
    return entry[0]
