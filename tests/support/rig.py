"""A target and a drafter over scripted models, and one call that runs them to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from specengine.cache.context import Context
from specengine.control.controller import FixedDraftLength
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter
from specengine.core.events import Chunk, Finished
from specengine.core.vocab import Vocab
from specengine.drafters.bridge import SameIds
from specengine.drafters.model import ModelDrafter
from specengine.loop.generate import generate
from specengine.loop.inspection import InspectedRound
from specengine.loop.target import LocalTarget
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from support.fakes import FakeKVCache, FakeVocab, Model

GREEDY = SamplingParams(temperature=0)


class Rig:
    """`Rig(model)` is the target alone; with `draft`, another scripted model drafts for it."""

    def __init__(
        self,
        model: Model,
        draft: Model | None = None,
        *,
        n_vocab: int = 8,
        eog: Sequence[int] = (),
        vocab: Vocab | None = None,
        sampling: SamplingParams = GREEDY,
        rule: str | None = None,
        n_ctx: int = 256,
        draft_n_ctx: int = 256,
        pieces: dict[int, bytes] | None = None,
        logprobs: int | None = None,
        on_round: Callable[[InspectedRound], None] | None = None,
        stops_every: int = 1,
    ) -> None:
        self.abort = AbortFlag()
        self.model = model
        self.vocab = vocab or FakeVocab(n_vocab, eog, pieces)
        size = self.vocab.size
        self.target_cache = FakeKVCache(model, size, n_ctx=n_ctx, stops_every=stops_every)
        self.draft_cache = FakeKVCache(draft or model, n_vocab, n_ctx=draft_n_ctx)
        self.rule = make_rule(rule, sampling)
        self.target = LocalTarget(
            self.vocab,
            Context(self.target_cache),
            Transforms(sampling),
            self.rule,
            logprobs=logprobs,
            on_round=on_round,
        )
        self.drafter: Drafter | None = None
        if draft is not None:
            self.drafter = ModelDrafter(
                "fake",
                SameIds(self.vocab, n_vocab),
                Context(self.draft_cache),
                Transforms(sampling),
                self.rule,
            )

    def events(self, prompt: Sequence[int], k: int = 4, **options: Any) -> Any:
        return generate(
            self.target,
            [self.drafter] if self.drafter else [],
            FixedDraftLength(k),
            prompt,
            abort=self.abort,
            **options,
        )

    def run(self, prompt: Sequence[int], k: int = 4, **options: Any) -> Finished:
        *chunks, finished = self.events(prompt, k, **options)
        assert isinstance(finished, Finished)
        assert all(isinstance(chunk, Chunk) for chunk in chunks)
        assert "".join(chunk.text for chunk in chunks) == finished.text
        return finished

    def caches_hold_what_they_say(self) -> bool:
        contexts = [(self.target.context, self.target_cache)]
        if isinstance(self.drafter, ModelDrafter):
            contexts.append((self.drafter.context, self.draft_cache))
        return all(context.tokens.tolist() == cache.held for context, cache in contexts)
