"""Proves that a server's scores are what they seem: on a known text, before anything relies on it.

The server goes on from the text by itself, and then scores its own continuation. Each token must be
its own first choice at the very place where it was said, with the same log-probability, wherever
the scores begin. So ids, order and offsets are right, and the log-probabilities are raw. Then both
sides encode the same text and the same chat.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from specchat.backends.scoring.client import ScoringClient
from specchat.backends.scoring.dialect import GREEDY, Capabilities, Scored, ServerToken, require
from specchat.wire.errors import RemoteError
from specengine.cache.costs import PassCosts
from specengine.chat.chat_template import Turn, encode_chat
from specengine.core.errors import TemplateError
from specengine.core.vocab import Vocab
from specengine.stream.scoring import ScoresError

_KNOWN = "The numbers are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"
_LENGTH = 6  # of the continuation
_TOP_N = (64, 40, 20, 5, 1)  # vLLM's default limit is 20
_COMPARED = 5  # most probable tokens of each place
_CLOSE = 0.5  # nats between two passes of different width on 16-bit hardware
_SCRIPTS = "def f(x):\n    return x + 1  # naïve café, Straße, ελληνικά, 你好, 🎉 1234567"
_CHAT = [Turn("user", "Name three colours.")]


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found out, with first measurements of what requests cost."""

    capabilities: Capabilities
    costs: PassCosts


async def prove(client: ScoringClient, vocab: Vocab, template: str | None, model: str) -> Proof:
    """Raises ScoresError, one line, if the server cannot be relied on to verify a draft of
    `vocab`; RemoteError, httpx.TransportError where it does not answer.
    """
    known = vocab.tokenize(_KNOWN, bos=True)
    costs = PassCosts()
    top_n = await _most_probable(client, known)
    said = await _continuation(client, known, min(top_n, _COMPARED), costs)
    tokens = [s.token for s in said]
    whole = await client.score(known, tokens, top_n)
    _check_own_choice(said, whole)
    started = time.perf_counter()
    later = await client.score([*known, *tokens[:2]], tokens[2:], top_n)
    costs.observe(len(tokens) - 1, time.perf_counter() - started)
    require(_close(later.logprobs, whole.logprobs[2:]), "its scores change with where they begin")
    bare = await client.score(known, tokens, 0)  # some servers have a way of their own for that
    require(_close(bare.logprobs, whole.logprobs), "its scores change with what else is asked")
    drawn = await client.draw(known, 2)
    require(all(0 < d.p <= 1 for d in drawn), "it draws tokens that have no probability")
    await _check_vocabulary(client, vocab, template, model)
    dialect = client.dialect
    return Proof(
        Capabilities(
            token_prompt=True,
            prompt_top_n=top_n,
            start_offset=dialect.start_offset,
            cached=dialect.cached,
            server_sampling=True,
        ),
        costs,
    )


async def _continuation(
    client: ScoringClient, known: Sequence[int], top_n: int, costs: PassCosts
) -> list[ServerToken]:
    said: list[ServerToken] = []
    at: list[float] = []
    async for token in client.stream(known, GREEDY, _LENGTH, top_n):
        said.append(token)
        at.append(time.perf_counter())
    require(
        len(said) == _LENGTH, f"it says {len(said)} tokens, not the {_LENGTH} that were asked for"
    )
    if at[-1] > at[1]:
        costs.observe(1, (at[-1] - at[1]) / (_LENGTH - 2))
    return said


async def _most_probable(client: ScoringClient, known: Sequence[int]) -> int:
    """How many of the most probable tokens it tells."""
    for n in _TOP_N:
        with suppress(RemoteError):  # more than it is allowed to tell
            await client.score(known[:-1], known[-1:], n)
            return n
    raise ScoresError("it tells no log-probabilities of a prompt")


def _check_own_choice(said: Sequence[ServerToken], scored: Scored) -> None:
    for token, logprob, row in zip(said, scored.logprobs, scored.rows, strict=False):
        best = row.tokens[0][1]
        told = dict(row.tokens).get(token.token, -float("inf"))
        require(best - told < _CLOSE, "its scores contradict what it said itself")
        require(told == logprob, "its scores contradict each other")
        # Of a token that is nearly certain, the others tell the temperature.
        raw = [p for _, p in row.tokens[: len(token.top.tokens)]]
        require(
            _close([token.logprob], [logprob]) and _close([p for _, p in token.top.tokens], raw),
            "its log-probabilities are not raw ones",
        )


async def _check_vocabulary(
    client: ScoringClient, vocab: Vocab, template: str | None, model: str
) -> None:
    ids = await client.encode(_SCRIPTS)
    ours = vocab.tokenize(_SCRIPTS, bos=True)
    require(ids == ours, "its vocabulary is not that of the draft model")
    try:
        n = len(encode_chat(template, _CHAT, vocab))
    except TemplateError as error:
        raise ScoresError(f"the draft model cannot write a chat: {error}") from None
    theirs = await client.count_chat(model, _CHAT)
    require(n == theirs, f"a chat has {theirs} tokens there and {n} here: another template")


def _close(these: Sequence[float], those: Sequence[float]) -> bool:
    return all(abs(a - b) < _CLOSE for a, b in zip(these, those, strict=True))
