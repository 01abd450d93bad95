"""A target on a verify server, its drafter on this computer: `specengine.pair.Pair`, remotely."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from specchat.remote.errors import RemoteError
from specchat.remote.network import NetworkThread
from specchat.remote.preparation import PreparedRemote
from specchat.remote.stream import Connection, OnLoss, RemoteStream, Request
from specchat.remote.vocabulary import load_vocabulary
from specengine.cancel import AbortFlag
from specengine.controller import FixedDraftLength
from specengine.costs import PassCosts
from specengine.drafting import Drafting, DraftMethod
from specengine.duplex import answer_with_hints
from specengine.errors import ContextFullError
from specengine.events import Chunk, Finished
from specengine.generate import generate
from specengine.gguf import read_gguf
from specengine.offload import load_smaller, plan
from specengine.pair import MAX_DRAFT, LoadedModel, LoadOptions
from specengine.placement import summary
from specengine.rules.coupled import CoupledRule
from specengine.sampling import SamplingParams, Transforms
from specengine.target import LocalTarget

_GOODBYE_S = 1.0
_RULES = (None, "coupled", "greedy")  # what the text of a server follows


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """How a person wants a target elsewhere to be used."""

    patience_ms: float = 0.0
    """How long the target waits for a draft: 0 is fastest, much more takes the fewest passes."""
    on_loss: OnLoss = "wait"
    """What to do where the connection is lost amid an answer."""


class RemotePair:
    """Made, used and closed in the engine thread."""

    def __init__(
        self,
        ready: PreparedRemote,
        network: NetworkThread,
        options: LoadOptions,
        remote: RemoteOptions,
        *,
        abort: AbortFlag,
        on_progress: Callable[[str, float], None],
    ) -> None:
        """Raises RemoteError, ModelFileError, BackendError, CancelledError."""
        self.abort = abort
        self.method = ready.method
        self._network = network
        self._remote = remote
        self._n_ctx = ready.n_ctx
        self._connection = Connection(ready.server, ready.fingerprint)
        self._draft: LoadedModel | None = None
        self._vocabulary = load_vocabulary(ready.vocabulary, ready.fingerprint)
        self.vocab = self._vocabulary.vocab
        self.notices: list[str] = []
        """What a person should know about how the draft model was loaded."""
        if ready.draft is not None:
            try:
                self._draft = self._load_draft(ready.draft, options, on_progress)
            except BaseException:
                self._vocabulary.close()
                raise
        self._drafting = Drafting(self.vocab, self._draft, ready.vocabularies)
        self._vocabularies = ready.vocabularies

    def _load_draft(
        self, path: Path, options: LoadOptions, on_progress: Callable[[str, float], None]
    ) -> LoadedModel:
        [placement] = plan([read_gguf(path)], options.n_ctx, [options.gpu_layers.draft])
        return load_smaller(
            placement,
            lambda smaller: LoadedModel(
                path,
                options,
                self.abort.child(),
                1,
                lambda done: on_progress(path.name, done),
                placement=smaller,
            ),
            lambda notice: self.notices.append(f"{path.name}: {notice}"),
        )

    @property
    def placement(self) -> str:
        """As `Pair.placement`, of the draft model alone."""
        return summary({"draft": self._draft.placement if self._draft is not None else None})

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def chat_template(self) -> str | None:
        return self._vocabulary.chat_template

    @property
    def files(self) -> list[Path]:
        """The draft model's, where there is one."""
        return [] if self._draft is None else [self._draft.model.path]

    @property
    def costs(self) -> dict[str, PassCosts]:
        return {} if self._draft is None else {self.files[0].name: self._draft.context.costs}

    def calibrate(self) -> bool:
        """What a pass costs, the server knows; and drafts cost nothing that is needed here."""
        return False

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        """As `Drafting.remember`."""
        self._drafting.remember(texts)

    def answer(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams,
        *,
        rule: str | None = None,
        drafting: bool = True,
        drafter: DraftMethod | None = None,
        draft_max: int = MAX_DRAFT,
        draft_length: int | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        reproducible: bool = False,
        logprobs: int | None = None,
        grammar: str | None = None,
        on_prompt: Callable[[int, int], None] | None = None,
    ) -> Iterator[Chunk | Finished]:
        """As `specengine.pair.Pair.answer`. A server is always `reproducible`, and tells nothing
        of a prompt's progress. Raises RemoteError for what the protocol has no room for.
        """
        if rule not in _RULES or logprobs is not None or grammar is not None:
            raise RemoteError(
                "a target on a server has one rule, coupled, and neither log-probabilities nor "
                "grammars"
            )
        room = self._n_ctx - len(prompt)
        if room < 1:
            raise ContextFullError(
                f"the prompt of {len(prompt)} tokens leaves no room for an answer in the server's "
                f"context of {self._n_ctx}"
            )
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        sampling = sampling.model_copy(update={"seed": seed})
        request = Request(
            _settings(sampling),
            seed,
            room if max_tokens is None else min(max_tokens, room),
            self._remote.patience_ms,
            self._remote.on_loss,
        )
        method = (drafter or self.method) if drafting else "none"
        stream = RemoteStream(self._network, self._connection, prompt, request)
        events = answer_with_hints(
            stream,
            self.vocab,
            self._drafting.drafters(method, Transforms(sampling), CoupledRule(sampling)),
            prompt,
            stop=stop,
            abort=self.abort,
            draft_max=draft_length,
        )
        for event in events:
            if isinstance(event, Finished) and stream.lost and self._remote.on_loss == "local":
                yield from self._alone(event, prompt, sampling, request.max_tokens, stop)
            else:
                yield event

    def close(self) -> None:
        if self._draft is not None:
            self._draft.close()
        self._vocabulary.close()
        self._network.call(self._goodbye())

    def _alone(
        self,
        lost: Finished,
        prompt: Sequence[int],
        sampling: SamplingParams,
        max_tokens: int,
        stop: Sequence[str],
    ) -> Iterator[Chunk | Finished]:
        """Without the target: the draft model goes on in its own words, and it is said."""
        draft, n = self._draft, len(lost.tokens)
        other_ids = self._vocabularies is not None and self._vocabularies.way != "ids"
        if draft is None or other_ids or n >= max_tokens:
            yield lost
            return
        target = LocalTarget(
            draft.vocab, draft.context, Transforms(sampling), CoupledRule(sampling)
        )
        for event in generate(
            target,
            [],
            FixedDraftLength(0),
            [*prompt, *lost.tokens],
            max_tokens=max_tokens - n,
            stop=stop,
            abort=self.abort,
        ):
            if isinstance(event, Chunk):
                yield replace(event, stats=lost.stats)
                continue
            notice = (
                f"{lost.error}; what follows its first {n} tokens are the words of "
                f"{draft.model.path.stem}, which the target has not verified"
            )
            yield replace(
                event,
                text=lost.text + event.text,
                tokens=lost.tokens + event.tokens,
                stats=lost.stats,
                notices=(*lost.notices, notice, *event.notices),
            )

    async def _goodbye(self) -> None:
        """The server forgets the text; in a while it would anyway."""
        server, session = self._connection.server, self._connection.session
        if session is not None:
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    await server.delete_session(session)
        await server.close()


def _settings(sampling: SamplingParams) -> dict[str, Any]:
    """As the protocol spells them: JSON has no infinity."""
    settings = sampling.model_dump(mode="json", exclude={"seed"})
    bias = {token: "-inf" if b == -math.inf else b for token, b in sampling.logit_bias.items()}
    return {**settings, "logit_bias": bias}
