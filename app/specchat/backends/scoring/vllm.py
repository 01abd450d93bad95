"""vLLM's `/v1/completions`, with `prompt_logprobs`.

Such a request never reads the prefix cache and scores the whole prompt; the entry of its first
token is null. Log-probabilities are raw ones, unless the server was started otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specchat.backends.bounds import Logprob, TokenId
from specchat.backends.scoring import vllm_tokens
from specchat.backends.scoring.dialect import (
    RAW,
    Dialect,
    Drawing,
    Part,
    Request,
    Said,
    Scored,
    best,
    parsed,
    require,
    server_tokens,
)

_ID = "token_id:"  # how ids are written where the protocol has a place for text only
_SEEDS = 1 << 63


class _Logprob(Part):
    logprob: Logprob


class _Logprobs(Part):
    """Of the tokens that were said; these are written as `token_id:7`."""

    tokens: tuple[str, ...] = ()
    token_logprobs: tuple[Logprob | None, ...] = ()
    top_logprobs: list[dict[str, Logprob] | None] | None = None


class _Choice(Part):
    prompt_logprobs: list[dict[TokenId, _Logprob] | None] | None = None
    prompt_token_ids: list[TokenId] | None = None
    token_ids: list[TokenId] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Answer(Part):
    choices: tuple[_Choice, ...] = ()


class VLLM(Dialect):
    name = "vLLM"
    start_offset = False
    cached = False
    takes_seed = True

    def __init__(self, model: str, *, scale_out: bool = False) -> None:
        """`scale_out`: ask `/inference/v1/generate` where no most probable tokens are needed."""
        self._model = model
        self._scale_out = scale_out

    def request(
        self,
        prompt: Sequence[int] | str,
        drawing: Drawing = RAW,
        *,
        max_tokens: int = 1,
        top_n: int = 0,
        n: int = 1,
    ) -> Request:
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "max_tokens": max_tokens,
            "n": n,
            **drawing.settings(-100),
            "logprobs": top_n,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        if (seed := drawing.params.seed) is not None:
            body["seed"] = seed % _SEEDS
        return Request("/v1/completions", body)

    def said(self, answer: Any, top_n: int) -> list[Said]:
        return [_said(choice, top_n) for choice in parsed(_Answer, answer).choices]

    def score(self, text: Sequence[int], draft: Sequence[int], top_n: int) -> Request:
        if self._scale_out and top_n == 0:
            return vllm_tokens.request(self._model, text, draft)
        request = self.request([*text, *draft], top_n=top_n)
        request.body["prompt_logprobs"] = top_n
        return request

    def scored(self, answer: Any, text: Sequence[int], draft: Sequence[int], top_n: int) -> Scored:
        if self._scale_out and top_n == 0:
            return vllm_tokens.scored(answer, draft)
        choice = _only_choice(answer)
        tokens = [*text, *draft]
        require(choice.prompt_token_ids in (None, tokens), "scores of other tokens")
        scores = choice.prompt_logprobs or []
        require(len(scores) == len(tokens), f"{len(scores)} scores of {len(tokens)} tokens")
        said = _said(choice, top_n).tokens
        require(len(said) == 1, "no token after the draft")
        # Values of another request or another place do not have these tokens, at least not all.
        aligned = zip(tokens[1:], scores[1:], strict=True)
        require(all(e is not None and t in e for t, e in aligned), "scores of other tokens")
        of_draft = [{t: e.logprob for t, e in (s or {}).items()} for s in scores[len(text) :]]
        logprobs = tuple(entry[token] for token, entry in zip(draft, of_draft, strict=True))
        return Scored(logprobs, (*(best(e, top_n) for e in of_draft), said[0].top), said[0])

    def encoded(self, answer: Any) -> list[int]:
        return _only_choice(answer).prompt_token_ids or []


def _only_choice(answer: Any) -> _Choice:
    choices = parsed(_Answer, answer).choices
    require(len(choices) == 1, "no answer")
    return choices[0]


def _said(choice: _Choice, top_n: int) -> Said:
    require(choice.finish_reason != "abort", "aborted")
    found = choice.logprobs or _Logprobs()
    ids = [_id(token) for token in found.tokens]
    require(choice.token_ids in (None, ids), "log-probabilities of other tokens")
    tops = [{_id(t): p for t, p in (top or {}).items()} for top in found.top_logprobs or []]
    tokens = server_tokens(ids, found.token_logprobs, tops, top_n)
    return Said(tokens, choice.finish_reason is not None)


def _id(written: str) -> int:
    digits = written.removeprefix(_ID)
    is_id = digits != written and digits.isascii() and digits.isdigit() and len(digits) < 10
    require(is_id, "text instead of token ids")
    return int(digits)
