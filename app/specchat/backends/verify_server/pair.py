"""A target on a verify server, its drafter on this computer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.answer_room import answer_room
from specchat.backends.backend import Emit
from specchat.backends.draft_model import DraftingHere, load_draft_model
from specchat.backends.support import SAMPLING, TOKENS, Support
from specchat.backends.verify_server.preparation import PreparedRemote
from specchat.backends.verify_server.stream import Connection, OnLoss, RemoteStream, Request
from specchat.backends.verify_server.vocabulary import load_vocabulary
from specchat.wire.errors import RemoteError
from specchat.wire.network import NetworkThread
from specengine.chat.reasoning_format import reasoning_format
from specengine.core.cancel import AbortFlag
from specengine.load.loaded_model import LoadedModel, LoadOptions
from specengine.load.request import AnswerRequest
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.grammar import Grammar
from specengine.stream.duplex import Event, answer_with_hints
from specengine.stream.unverified import PartialAnswer

_GOODBYE_S = 1.0
_REACH_S = 5.0
_RULES = (None, "coupled", "greedy")  # what the text of a server follows
_WITHOUT = {  # why, by what a server has not got
    "grammar": "this server is too old for one, and for a --json-schema",
    "logprobs": "this server is too old for it",
}
_NOT_REPRODUCIBLE = (
    "the server's build of llama.cpp rounds by the width of a pass whatever is done about it: "
    "texts may differ at near-ties"
)


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """How a person wants a remote target to be used."""

    patience_ms: float = 0.0
    """How long the target waits for a draft: 0 is fastest, much more takes the fewest passes."""
    on_loss: OnLoss = "wait"
    """What to do when the connection is lost during an answer."""
    predicted_outputs: bool = False
    """Send text that is to be edited to servers of the OpenAI protocol as a prediction."""
    key_over_http: bool = False
    """Send keys where everybody on the way can read them, too."""


class RemotePair(DraftingHere):
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
        self._network = network
        self._remote = remote
        bitwise = {"reproducible"} if ready.model.reproducible else set()
        self.support = Support(
            SAMPLING | TOKENS | ready.model.features | bitwise,
            refused=_WITHOUT,
            moot={"reproducible": _NOT_REPRODUCIBLE},
        )
        fingerprint = ready.model.vocab_fingerprint
        self._connection = Connection(ready.server, fingerprint)
        self._vocabulary = load_vocabulary(ready.vocabulary, fingerprint)
        self.notices = []
        draft: LoadedModel | None = None
        if ready.draft is not None:
            try:
                draft = load_draft_model(
                    ready.draft, options, abort.child(), on_progress, self.notices.append
                )
            except BaseException:
                self._vocabulary.close()
                raise
        super().__init__(
            self._vocabulary, ready.model.n_ctx, ready.method, draft, ready.vocabularies
        )

    def answer(self, prompt: Sequence[int], options: AnswerOptions, emit: Emit) -> Iterator[Event]:
        """Goes on with `options.begun`, if there is one, and verifies what of it is not.

        Raises RemoteError for a rule that servers do not have, SamplingError for `greedy` above
        temperature 0.
        """
        begun = options.begun
        if options.rule not in _RULES:
            raise RemoteError(
                f"a target on a verify server has the rule coupled, not {options.rule}"
            )
        follows = None
        if options.grammar is not None:  # raises where it cannot be used, before anything is sent
            follows = Grammar(options.grammar, self.vocab, len(prompt))
        most = answer_room(len(prompt), self.n_ctx, options.max_tokens)
        sampling = options.sampling
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        verified: tuple[int, ...] = ()
        if begun is not None:
            seed, verified = begun.unverified.seed, begun.tokens[: begun.unverified.token]
        sampling = sampling.model_copy(update={"seed": seed})
        acceptance = make_rule(options.rule or "coupled", sampling)
        wanted = Request(
            wire_settings(sampling),
            seed,
            most - len(verified),
            self._remote.patience_ms,
            self._on_loss(begun),
            _further(len(prompt), options),
        )
        lengths = [n for n in (options.draft_max, options.draft_length) if n is not None]
        method = options.method(self.method)
        return answer_with_hints(
            RemoteStream(self._network, self._connection, [*prompt, *verified], wanted),
            self.vocab,
            self._drafting.drafters(method, Transforms(sampling, follows), acceptance),
            prompt,
            seed=seed,
            max_tokens=most,
            stop=options.stop,
            reasoning=None if options.raw else reasoning_format(self.chat_template),
            abort=self.abort,
            draft_max=min(lengths, default=None),
            begun=begun,
        )

    async def can_verify(self) -> bool:
        return await asyncio.wrap_future(self._network.submit(self._is_within_reach()))

    def close(self) -> None:
        if self._draft is not None:
            self._draft.close()
        self._vocabulary.close()
        self._network.call(self._goodbye())

    async def _is_within_reach(self) -> bool:
        """Whether the server answers now; in the network thread."""
        try:
            async with asyncio.timeout(_REACH_S):
                await self._connection.server.round_trip_s(times=1)
        except (httpx.TransportError, TimeoutError):
            return False
        return True

    def _on_loss(self, begun: PartialAnswer | None) -> OnLoss:
        """Only a draft model can go on alone; and not where its words are to be verified."""
        cannot = self._draft is None or begun is not None
        return "stop" if cannot and self._remote.on_loss == "local" else self._remote.on_loss

    async def _goodbye(self) -> None:
        """The server forgets the text; in a while it would anyway."""
        server, session = self._connection.server, self._connection.session
        if session is not None:
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    await server.delete_session(session)
        await server.close()


def _further(answer_start: int, request: AnswerRequest) -> dict[str, Any]:
    """What not every server has."""
    wanted: dict[str, Any] = {}
    if request.grammar is not None:
        wanted |= {"grammar": request.grammar, "grammar_start": answer_start}
    if request.logprobs is not None:
        wanted |= {"logprobs": request.logprobs}
    return wanted


def wire_settings(sampling: SamplingParams) -> dict[str, Any]:
    """As the protocol has them: the seed stands beside them."""
    return {name: value for name, value in sampling.to_json().items() if name != "seed"}
