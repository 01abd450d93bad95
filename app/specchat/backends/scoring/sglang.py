"""SGLang's `/generate`.

Scores begin at `logprob_start_len`, whose own entry has no log-probability: with the last token of
the text there, the draft tokens follow. What lies before that position comes from the prefix cache.
Log-probabilities are those of the request's temperature, so it is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specchat.backends.bounds import Count, Logprob, TokenId
from specchat.backends.scoring.dialect import (
    RAW,
    Dialect,
    Drawing,
    Part,
    Request,
    Said,
    Scored,
    best,
    known,
    parsed,
    require,
    server_tokens,
)

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


class SGLang(Dialect):
    name = "SGLang"
    start_offset = True
    cached = True
    takes_seed = False

    def request(
        self,
        prompt: Sequence[int] | str,
        drawing: Drawing = RAW,
        *,
        max_tokens: int = 1,
        top_n: int = 0,
        n: int = 1,
    ) -> Request:
        is_text = isinstance(prompt, str)
        sampling = {
            **drawing.settings(-1e4),
            "top_k": drawing.params.top_k or -1,
            "max_new_tokens": max_tokens,
            "n": n,
        }
        body: dict[str, Any] = {
            "sampling_params": sampling,
            "return_logprob": True,
            "logprob_start_len": 0 if is_text else -1,
            "top_logprobs_num": top_n,
        }
        body |= {"text": prompt} if is_text else {"input_ids": list(prompt)}
        return Request("/generate", body)

    def said(self, answer: Any, top_n: int) -> list[Said]:
        answers = answer if isinstance(answer, list) else [answer]
        return [_said(parsed(_Answer, each).meta_info, top_n) for each in answers]

    def score(self, text: Sequence[int], draft: Sequence[int], top_n: int) -> Request:
        request = self.request([*text, *draft], top_n=top_n)
        request.body["logprob_start_len"] = len(text) - 1
        return request

    def scored(self, answer: Any, text: Sequence[int], draft: Sequence[int], top_n: int) -> Scored:
        meta = parsed(_Answer, answer).meta_info
        entries = meta.input_token_logprobs or []
        expected = [text[-1], *draft]
        require([token for _, token, _ in entries] == expected, "scores of other tokens")
        tops = meta.input_top_logprobs or []
        require(top_n == 0 or len(tops) == len(expected), "most probable tokens are missing")
        said = _said(meta, top_n).tokens
        require(len(said) == 1, "no token after the draft")
        rows = [best(_by_id(top), top_n) for top in tops[1:]] + [said[0].top] if top_n else []
        return Scored(tuple(known(p) for p, _, _ in entries[1:]), tuple(rows), said[0])

    def encoded(self, answer: Any) -> list[int]:
        entries = parsed(_Answer, answer).meta_info.input_token_logprobs
        return [token for _, token, _ in entries or []]


def _said(meta: _Meta, top_n: int) -> Said:
    finish = meta.finish_reason
    if finish is not None:
        require(finish.type != "abort", f"aborted: {finish.message}")
    entries = meta.output_token_logprobs or []
    tops = [_by_id(top) for top in meta.output_top_logprobs or []]
    tokens = server_tokens([e[1] for e in entries], [e[0] for e in entries], tops, top_n)
    return Said(tokens, finish is not None, meta.completion_tokens)


def _by_id(entries: list[Entry] | None) -> dict[int, float]:
    return {token: known(logprob) for logprob, token, _ in entries or []}
