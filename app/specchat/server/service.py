"""What the handlers work with: one model, its sessions, its counters."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from specchat.models.registry import Profile
from specchat.models.selection import served_profile
from specchat.server.bodies import M, read_message
from specchat.server.keys import Keys
from specchat.server.limits import Limits
from specchat.server.metrics import Metrics
from specchat.server.refusal import Refusal
from specchat.server.sessions import Answer, Session, Sessions
from specchat.version import __version__
from specchat.wire.messages import FEATURES, PROTOCOL
from specengine.core.errors import BackendError, GrammarError
from specengine.core.limits import MAX_DRAFT
from specengine.files.gguf import GGUF
from specengine.files.vocabulary_file import vocabulary_of
from specengine.load.served import ServedModel
from specengine.sampling import SamplingParams
from specengine.sampling.grammar import Grammar
from specengine.serve.generation import Generation
from specengine.stream.committed import Committed, Event
from specengine.stream.transcript import Transcript


@dataclass
class Service:
    """`sha256` is the model file's, if it is known. `profile`: the one that is served, with what
    suits its target; None for a target without one.
    """

    name: str
    model: ServedModel
    gguf: GGUF
    keys: Keys
    sha256: str | None = None
    profile: Profile | None = None
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.sessions = Sessions(
            ttl_s=self.limits.ttl_s,
            per_owner=self.limits.sessions_per_key,
            close=self._close_session,
        )

    @property
    def protocol(self) -> dict[str, int]:
        return {"min": PROTOCOL, "max": PROTOCOL}

    def info(self) -> dict[str, Any]:
        """What `GET /specchat/v1/info` answers."""
        load = self.model.scheduler.load
        return {
            "server": f"specchat/{__version__}",
            "protocol": self.protocol,
            "models": [
                {
                    "name": self.name,
                    "sha256": self.sha256,
                    "vocab_fingerprint": self.model.vocab.fingerprint,
                    "n_vocab": self.model.vocab.size,
                    "n_ctx": self.model.n_ctx,
                    "features": list(FEATURES),
                    "reproducible": self.model.step is not None,
                    "profile": None if self.profile is None else served_profile(self.profile),
                }
            ],
            "limits": {
                "max_draft": MAX_DRAFT,
                "hint_tokens": self.limits.hint_tokens,
                "sessions_per_key": self.limits.sessions_per_key,
                "body_bytes": self.limits.body,
                "ttl_s": self.limits.ttl_s,
            },
            "load": {
                "sessions": len(self.sessions),
                "running": load.running,
                "waiting": load.waiting,
                "passes": self.model.scheduler.costs.as_dict(),
                "pass_s": self.model.scheduler.costs.measured(self.model.step or 1),
            },
        }

    @functools.cached_property
    def vocabulary(self) -> bytes:
        """What `GET /specchat/v1/vocab/{fingerprint}` answers."""
        vocab = self.model.vocab
        document = {
            "fingerprint": vocab.fingerprint,
            "n_vocab": vocab.size,
            "bos": vocab.bos,
            "eos": vocab.eos,
            "eog": sorted(vocab.eog),
            "chat_template": self.model.chat_template,
            **vocabulary_of(self.gguf),
        }
        return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogateescape")

    async def read(
        self, request: Request, kind: type[M], *, limit: int | None = None, untyped: bool = False
    ) -> M:
        """The body of `request`, as `read_message` does."""
        most = self.limits.body if limit is None else limit
        patience_s = self.limits.silence_s
        return await read_message(request, kind, limit=most, patience_s=patience_s, untyped=untyped)

    def require_place(self) -> None:
        """Raises Refusal, 429 or 503, if an answer would not begin before long."""
        scheduler = self.model.scheduler
        if (fault := scheduler.fault) is not None:
            raise Refusal(503, "model", fault, headers={"Retry-After": "10"})
        if scheduler.load.waiting >= self.limits.waiting:
            raise Refusal(
                429,
                "busy",
                "too many answers are waiting: try again later",
                headers={"Retry-After": "2"},
            )

    def room(self, n: int) -> int:
        """How many tokens fit behind a text of `n`. Raises Refusal, 413, if none does."""
        room = self.model.n_ctx - n
        if room < 1:
            message = (
                f"the text of {n} tokens leaves no room for an answer in the context of "
                f"{self.model.n_ctx}"
            )
            raise Refusal(413, "context", message, n_ctx=self.model.n_ctx)
        return room

    def begin(
        self,
        session: Session,
        prompt: Transcript,
        sampling: SamplingParams,
        max_tokens: int | None,
        **further: Any,
    ) -> Answer:
        """An answer that is being made, as long as there is room for; counted whoever reads it.

        `further`: whatever else a Generation has.
        """
        scheduler, room = self.model.scheduler, self.room(len(prompt))
        most = room if max_tokens is None else min(room, max_tokens)

        def make(on_event: Callable[[Event], None]) -> Generation:
            return Generation(session.id, prompt, sampling, on_event, max_tokens=most, **further)

        answer = session.begin(make, scheduler.cancel, self._count)
        scheduler.submit(answer.generation)
        return answer

    async def grammar(self, text: str, start: int) -> Grammar:
        """`text` for an answer that begins at `start`, compiled where it will be used.

        Raises Refusal: 400 with the reason for one that cannot be used, 503 without a model.
        """
        model = self.model
        compiled = model.scheduler.call(lambda: Grammar(text, model.vocab, start))
        try:
            return await asyncio.wrap_future(compiled)
        except GrammarError as error:
            raise Refusal(400, "grammar", str(error)) from None
        except BackendError as error:
            raise Refusal(503, "model", str(error)) from None

    def _count(self, event: Event) -> None:
        if isinstance(event, Committed):
            self.metrics.count("tokens", len(event.tokens))
            self.metrics.count("hints_verified", event.drafted)
            self.metrics.count("hints_accepted", event.accepted)
        else:
            self.metrics.count("answers", ended=event.reason)

    def _close_session(self, session: Session) -> None:
        if session.answer is not None:
            self.model.scheduler.cancel(session.answer.generation)
        self.model.scheduler.release(session.id)
