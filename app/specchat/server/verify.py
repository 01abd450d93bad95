"""Handlers of the verify protocol (docs/protocol.md)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from specchat.server.answer_stream import AnswerStream
from specchat.server.bodies import NDJSON, check_ids, parse, read_lines
from specchat.server.refusal import Refusal
from specchat.server.service import Service
from specchat.server.sessions import Answer, Session, now_us
from specchat.wire.messages import PROTOCOL, Generate, Hint, NewSession
from specengine.core.limits import MAX_DRAFT
from specengine.sampling import SamplingParams
from specengine.sampling.grammar import Grammar
from specengine.stream.committed import Committed, Ended, Event

_SMALL = 4096  # bytes of a body that has no lists in it


class VerifyHandlers:
    """One for each server."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def info(self, request: Request) -> Response:
        return JSONResponse(self._service.info())

    async def vocabulary(self, request: Request) -> Response:
        if request.path_params["fingerprint"] != self._service.model.vocab.fingerprint:
            raise Refusal(
                404,
                "vocabulary",
                "this server has another vocabulary: ask /specchat/v1/info for its hash",
            )
        document = await asyncio.to_thread(lambda: self._service.vocabulary)
        headers = {"Cache-Control": "private, max-age=31536000, immutable, no-transform"}
        return Response(document, media_type="application/json", headers=headers)

    async def create(self, request: Request) -> Response:
        service = self._service
        wanted = await service.read(request, NewSession, limit=_SMALL)
        fingerprint = service.model.vocab.fingerprint
        if not wanted.protocol.min <= PROTOCOL <= wanted.protocol.max:
            message = f"this server speaks version {PROTOCOL} of the protocol"
            raise Refusal(400, "protocol", message, protocol=service.protocol)
        if wanted.model not in (None, service.name):
            raise Refusal(404, "model", f"there is no such model: this server has {service.name}")
        if wanted.vocab_fingerprint not in (None, fingerprint):
            message = "the client's vocabulary is not the model's"
            raise Refusal(409, "vocabulary", message, vocab_fingerprint=fingerprint)
        session = service.sessions.create(request.state.owner)
        return JSONResponse(
            {
                "session": session.id,
                "model": service.name,
                "model_sha256": service.sha256,
                "vocab_fingerprint": fingerprint,
                "protocol": PROTOCOL,
                "n_ctx": service.model.n_ctx,
                "max_draft": MAX_DRAFT,
                "ttl_s": service.limits.ttl_s,
            },
            status_code=201,
        )

    async def delete(self, request: Request) -> Response:
        with suppress(Refusal):  # a retry finds it gone
            self._service.sessions.delete(self._session(request))
        return Response(status_code=204)

    async def generate(self, request: Request) -> Response:
        service = self._service
        wanted = await service.read(request, Generate)
        service.require_place()
        grammar = await self._grammar(wanted)
        # Nothing is awaited from here on: another request could change the session meanwhile.
        session = self._session(request)
        self._check(wanted, session)
        if session.answer is not None:
            service.model.scheduler.cancel(session.answer.generation)
        session.transcript.truncate(wanted.base)
        session.transcript.extend(wanted.append)
        answer = service.begin(
            session,
            session.transcript.copy(),
            SamplingParams(**wanted.sampling.model_dump() | {"seed": wanted.seed}),
            wanted.max_tokens,
            patience_s=wanted.patience_ms / 1000,
            grammar=grammar,
            logprobs=wanted.logprobs,
        )
        session.connections += 1

        def end() -> None:
            session.connections -= 1
            service.model.scheduler.cancel(answer.generation)

        lines = self._lines(answer, len(session.transcript))
        return AnswerStream(lines, media_type=NDJSON, end=end)

    async def drafts(self, request: Request) -> Response:
        session = self._session(request)
        limits = self._service.limits
        async for line in read_lines(request, limit=limits.line, patience_s=limits.ttl_s):
            self._hint(session, parse(Hint, line))
        return JSONResponse({"committed": len(session.transcript), "t_us": now_us()})

    def _hint(self, session: Session, hint: Hint) -> None:
        service, most = self._service, self._service.limits.hint_tokens
        if len(hint.tokens) > most:
            raise Refusal(413, "hint", f"a hint may have at most {most} tokens")
        check_ids(hint.tokens, service.model.vocab.size)
        if session.answer is not None and session.answer.gen == hint.gen:
            prefix_hash = bytes.fromhex(hint.prefix_hash)
            service.model.scheduler.hint(session.answer.generation, prefix_hash, hint.tokens)

    def _session(self, request: Request) -> Session:
        return self._service.sessions.get(request.state.owner, request.path_params["session"])

    def _check(self, wanted: Generate, session: Session) -> None:
        """Raises Refusal if `wanted` cannot follow what is known of the session."""
        service, transcript = self._service, session.transcript
        known = wanted.base <= len(transcript)
        if not known or transcript.hash_at(wanted.base).hex() != wanted.base_hash:
            raise Refusal(
                409,
                "base",
                "the transcript differs: continue from this length if its hash matches yours, "
                "else from 0",
                length=len(transcript),
                hash=transcript.hash.hex(),
            )
        n = wanted.base + len(wanted.append)
        if n == 0:
            raise Refusal(400, "empty", "the transcript is empty: there is nothing to continue")
        service.room(n)
        n_vocab = service.model.vocab.size
        check_ids(wanted.append, n_vocab)
        check_ids(list(wanted.sampling.logit_bias), n_vocab)

    async def _grammar(self, wanted: Generate) -> Grammar | None:
        if wanted.grammar is None:
            return None
        n = wanted.base + len(wanted.append)
        start = n if wanted.grammar_start is None else wanted.grammar_start
        if start > n:
            raise Refusal(
                400, "grammar", f"grammar_start {start} is beyond the transcript of {n} tokens"
            )
        return await self._service.grammar(wanted.grammar, start)

    async def _lines(self, answer: Answer, start: int) -> AsyncIterator[bytes]:
        """The stream of one answer."""
        pings = 0
        yield _line({"gen": answer.gen, "pos": start, "tokens": [], "t_us": now_us()})
        while True:
            came = await answer.next(self._service.limits.ping_s)
            if came is None:
                pings += 1
                yield _line({"ping": pings, "t_us": now_us()})
                continue
            event, at = came
            yield _line({"gen": answer.gen, **_as_json(event), "t_us": at})
            if isinstance(event, Ended):
                return


def _as_json(event: Event) -> dict[str, Any]:
    if isinstance(event, Committed):
        line = {
            "pos": event.pos,
            "tokens": event.tokens,
            "margins": [round(margin, 4) for margin in event.margins],
            "accepted": event.accepted,
            "drafted": event.drafted,
        }
        if event.pass_s is not None:
            line["pass_us"] = round(1e6 * event.pass_s)
        if event.logprobs:
            line["logprobs"] = [asdict(logprobs) for logprobs in event.logprobs]
        return line
    ended: dict[str, Any] = {"finish": event.reason}
    if event.end_token is not None:
        ended["end_token"] = event.end_token
    if event.error is not None:
        ended["error"] = event.error
    return ended


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
