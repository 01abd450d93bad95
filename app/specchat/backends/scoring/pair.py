"""A target on an inference engine, its drafter on this computer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.answer_room import answer_room
from specchat.backends.backend import Emit, Event
from specchat.backends.draft_model import DraftingHere, load_draft_model
from specchat.backends.openai_chat.server import ChatClient, ChatServer
from specchat.backends.scoring.client import ScoringClient
from specchat.backends.scoring.dialect import Capabilities, Dialect
from specchat.backends.scoring.proof import Proof, prove
from specchat.backends.scoring.sglang import SGLang
from specchat.backends.scoring.target import ScoringTarget, Verification
from specchat.backends.scoring.vllm import VLLM
from specchat.backends.support import TOKENS, Support
from specchat.wire.address import Address
from specchat.wire.errors import RemoteError, TryAgainError
from specchat.wire.http import explain
from specchat.wire.keys import Key
from specchat.wire.network import NetworkThread
from specengine.chat.reasoning_format import reasoning_format
from specengine.control.controller import AdaptiveDraftLength
from specengine.core.cancel import AbortFlag
from specengine.core.events import Finished, Progress
from specengine.llama.model import LlamaModel
from specengine.llama.vocab import LlamaVocab
from specengine.load.drafting import DraftMethod, with_length
from specengine.load.loaded_model import LoadedModel, LoadOptions
from specengine.loop.generate import generate
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from specengine.stream.scoring import ScoresError, Way, way_to_verify

logger = logging.getLogger(__name__)

ENGINES: dict[str, Callable[[str], list[Dialect]]] = {
    "sglang": lambda model: [SGLang()],
    "vllm": lambda model: [VLLM(model, scale_out=True), VLLM(model)],
}
"""By what such servers say in their lists of models: ways of speaking to one about a model, the
best first.
"""

_TIES = 5  # most probable tokens to ask for where one would do: exact ties are to be seen
_PROOF_S = 60.0
_NO_SEED = "--seed: with these settings the server draws, and no seed repeats it"
_SAMPLING = frozenset({"temperature", "top_k", "top_p", "min_p", "seed", "logit_bias"}) | {
    *("repeat_penalty", "frequency_penalty", "presence_penalty")
}
_RULES: dict[Way, str] = {"rows": "coupled", "draws": "token", "alone": "coupled"}


@dataclass(frozen=True, slots=True)
class ScoringServer:
    """An engine that can score, by what it says of itself."""

    address: Address
    key: Key | None
    engine: str
    """One of `ENGINES`."""
    model: str
    n_ctx: int


async def connect(
    server: ScoringServer, vocab: LlamaVocab, template: str | None
) -> tuple[ScoringClient, Proof]:
    """A client of proved reliability. Raises ScoresError with one line, RemoteError."""
    causes: list[str] = []
    for dialect in ENGINES[server.engine](server.model):
        client = ScoringClient(server.address, server.key, dialect)
        try:
            async with asyncio.timeout(_PROOF_S):
                return client, await prove(client, vocab, template, server.model)
        except (ScoresError, RemoteError, TryAgainError) as error:
            causes.append(str(error))
        except TimeoutError:
            causes.append(f"no proof within {_PROOF_S:.0f} s")
        except httpx.TransportError as error:
            raise RemoteError(explain(error, server.address)) from error
        await client.close()
    raise ScoresError(causes[-1])


async def examine_scoring(
    server: ScoringServer, vocab: LlamaVocab, template: str | None
) -> Capabilities:
    """What the server can do for drafts of `vocab`. Raises as `connect`."""
    client, proof = await connect(server, vocab, template)
    await client.close()
    return proof.capabilities


def open_scoring(
    server: ScoringServer,
    draft: Path,
    method: DraftMethod,
    network: NetworkThread,
    options: LoadOptions,
    *,
    abort: AbortFlag,
    on_progress: Callable[[str, float], None],
) -> ScoringPair | ChatServer:
    """In the engine thread: the pair, or where the server cannot verify the target alone.

    Raises RemoteError, ModelFileError, BackendError, CancelledError.
    """
    vocabulary = LlamaModel(draft, vocab_only=True)
    try:
        client, proof = network.call(connect(server, vocabulary.vocab, vocabulary.chat_template))
    except ScoresError as error:
        logger.info("%s: %s", server.address.base, error)
        chat = ChatClient(server.address, server.key)
        return ChatServer(chat, server.model, network, abort, why=str(error))
    finally:
        vocabulary.close()
    notices: list[str] = []
    try:
        loaded = load_draft_model(draft, options, abort.child(), on_progress, notices.append)
    except BaseException:
        network.call(client.close())
        raise
    return ScoringPair(server, client, proof, loaded, method, network, abort, notices)


class ScoringPair(DraftingHere):
    """As `specengine.load.pair.Pair`; made, used and closed in the engine thread."""

    def __init__(
        self,
        server: ScoringServer,
        client: ScoringClient,
        proof: Proof,
        draft: LoadedModel,
        method: DraftMethod,
        network: NetworkThread,
        abort: AbortFlag,
        notices: list[str],
    ) -> None:
        """`notices`: what a person should know about how the draft model was loaded."""
        super().__init__(draft.model, server.n_ctx, method, draft)
        self.abort = abort
        self.notices = notices
        self._server = server
        self._client = client
        self._model = draft
        self._network = network
        self._capabilities: Capabilities = proof.capabilities
        self._target_costs = proof.costs
        self._controllers: dict[tuple[Way, int], AdaptiveDraftLength] = {}
        no_room = f"{client.dialect.name}'s interface has no room for it"
        self.support = Support(
            _SAMPLING | TOKENS,
            refused={
                "grammar": f"{no_room}, nor for --json-schema",
                **dict.fromkeys(("logprobs", "typical_p", "repeat_last_n"), no_room),
            },
            moot={
                "reproducible": (
                    f"{client.dialect.name} rounds by its load: texts may differ at near-ties"
                )
            },
        )

    def calibrate(self, options: AnswerOptions, emit: Emit) -> bool:
        if not options.drafting or options.draft_length is not None or self._model.is_calibrated:
            return False
        emit(Progress("measure", 0, 0, "this machine"))
        self._model.calibrate()
        return True

    def answer(self, prompt: Sequence[int], options: AnswerOptions, emit: Emit) -> Iterator[Event]:
        """The sampling settings decide how drafts are verified. `emit` hears why nothing comes,
        where the server is busy or out of reach. Raises RemoteError for a rule that these settings
        do not have.
        """
        for costs in (self._target_costs, *self.costs.values()):
            costs.begin()
        name = self._client.dialect.name
        sampling = options.sampling
        limit = answer_room(len(prompt), self.n_ctx, options.max_tokens)
        way = way_to_verify(sampling, self._capabilities.prompt_top_n)
        greedy = "greedy" if sampling.temperature == 0 else None
        if options.rule not in (None, _RULES[way], greedy):
            raise RemoteError(
                f"with these settings {name} has the rule {_RULES[way]}, not {options.rule}"
            )
        longest = options.longest_draft
        how = Verification(
            way, sampling, make_rule(_RULES[way], sampling), self._top_n(way, sampling)
        )
        target = ScoringTarget(
            self._client,
            self._network,
            self.vocab,
            self.n_ctx,
            how,
            self._target_costs,
            self.abort,
            until=len(prompt) + limit,
            on_wait=lambda cause: emit(Progress("wait", 0, 0, cause)),
        )
        adaptive = self._controllers.setdefault(
            (way, longest), AdaptiveDraftLength(self._target_costs.seconds, longest=longest)
        )
        method = "none" if way == "alone" else options.method(self.method)
        drafters, controller = with_length(
            self._drafting.drafters(method, Transforms(sampling), how.rule),
            adaptive,
            options.draft_length,
            longest,
        )
        with closing(target):
            for event in generate(
                target,
                drafters,
                controller,
                prompt,
                max_tokens=limit,
                stop=options.stop,
                reasoning=None if options.raw else reasoning_format(self.chat_template),
                abort=self.abort,
            ):
                if isinstance(event, Finished):
                    notices = self._notices(way, target.doubt) if options.drafting else ()
                    if self._ignores_seed(way, sampling, target.doubt):
                        notices = (*notices, _NO_SEED)
                    event = replace(event, notices=(*notices, *event.notices))
                yield event

    def close(self) -> None:
        self._model.close()
        self._network.call(self._client.close())

    def _top_n(self, way: Way, sampling: SamplingParams) -> int:
        if way != "rows":
            return 0
        wanted = _TIES if sampling.temperature == 0 else max(_TIES, sampling.top_k)
        return min(wanted, self._capabilities.prompt_top_n)

    def _ignores_seed(self, way: Way, sampling: SamplingParams, doubt: str | None) -> bool:
        if sampling.seed is None or sampling.temperature == 0:
            return False
        if doubt is None and way != "alone":
            return way == "draws"
        return not self._client.dialect.takes_seed

    def _notices(self, way: Way, doubt: str | None) -> tuple[str, ...]:
        model, name = self._server.model, self._client.dialect.name
        if doubt is not None:
            return (f"{name} cannot verify drafts ({doubt}): {model} went on alone",)
        if way == "alone":
            return (
                f"{model} answered alone: {name} verifies drafts at temperature 0, with --top-k up "
                f"to {self._capabilities.prompt_top_n} and no penalties, or at temperature 1 "
                "without truncation",
            )
        return ()
