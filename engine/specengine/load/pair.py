"""A target and its drafter, loaded: the engine's front door."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from specengine.cache.context import Context
from specengine.cache.costs import PassCosts
from specengine.cache.widths import STEPS, measure_width_step
from specengine.chat.reasoning_format import reasoning_format
from specengine.control.controller import AdaptiveDraftLength
from specengine.core.cancel import AbortFlag
from specengine.core.drafter import Drafter
from specengine.core.events import Chunk, Finished
from specengine.core.limits import MAX_DRAFT
from specengine.core.tokens import as_tokens, common_prefix
from specengine.drafters.registry import uses_own_heads
from specengine.files.compatibility import Comparison, find_mask_token
from specengine.files.gguf import read_gguf
from specengine.files.head_files import check_head, is_head
from specengine.files.mtp import check_own_heads
from specengine.llama.offload import load_smaller, plan
from specengine.llama.placement import Placement, summary, usage
from specengine.llama.vocab import LlamaVocab
from specengine.load.drafting import Drafting, DraftMethod, with_length
from specengine.load.loaded_head import LoadedHead, load_head, load_own_heads
from specengine.load.loaded_model import LoadedModel, LoadOptions
from specengine.load.request import AnswerRequest
from specengine.loop.generate import generate
from specengine.loop.inspection import InspectedRound
from specengine.loop.target import LocalTarget
from specengine.rules import AcceptanceRule, make_rule
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.grammar import Grammar

T = TypeVar("T")

_AHEAD = 128  # tokens that are read ahead in one pass: what is lost where it is cancelled
_WORTH_READING = 16


class Pair:
    """A target model and, where there is one, its draft model, in the thread that made them.

    Close it in that thread. `abort` stops whatever runs, loading included, from any thread.
    """

    def __init__(
        self,
        target: Path,
        draft: Path | None = None,
        *,
        method: DraftMethod = "lookup",
        vocabularies: Comparison | None = None,
        options: LoadOptions | None = None,
        abort: AbortFlag | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> None:
        """Load the models. `vocabularies`: how those of the two compare; equal, where it is None.
        With the method `mtp` the heads in the target's own file are loaded, too.

        `on_progress(file name, fraction)`. Raises ModelFileError, BackendError, CancelledError.
        """
        options = options or LoadOptions()
        self.abort = abort or AbortFlag()
        self.notices: list[str] = []
        """What a person should know about how the models were loaded."""
        self.method = method
        self._draft: LoadedModel | LoadedHead | None = None
        # By the longest draft allowed; what one has learned stays for the next answer.
        self._controllers: dict[int, AdaptiveDraftLength] = {}

        def load(path: Path, placement: Placement, make: Callable[..., T]) -> T:
            def report(fraction: float) -> None:
                if on_progress is not None:
                    on_progress(path.name, fraction)

            return load_smaller(
                placement,
                lambda smaller: make(path, on_progress=report, placement=smaller),
                lambda notice: self.notices.append(f"{path.name}: {notice}"),
            )

        files = [path for path in (draft, target) if path is not None]
        headers = [read_gguf(path) for path in files]
        with_head = draft is not None and is_head(headers[0])
        if with_head:
            check_head(headers[1], headers[0])
        own_heads = draft is None and uses_own_heads(method)
        if own_heads:
            check_own_heads(headers[-1])
        wanted = [options.gpu_layers.draft, options.gpu_layers.target][-len(files) :]
        *first, last = plan(headers, options.n_ctx, wanted)
        model = partial(LoadedModel, options=options)
        big = partial(model, abort=self.abort, max_rows=MAX_DRAFT + 1, own_heads=own_heads)
        self._target = load(target, last, big)
        abort = self.abort.child()
        try:
            if draft is not None and with_head:
                head = partial(
                    load_head,
                    header=headers[0],
                    target=self._target,
                    n_embd=headers[-1].n_embd,
                    options=options,
                    abort=abort,
                )
                self._draft = load(draft, first[0], head)
            elif draft is not None:
                found = find_mask_token(headers[0])
                mask = found if vocabularies is None else vocabularies.mask_token
                rows = 1 if mask is None else MAX_DRAFT
                small = partial(model, abort=abort, max_rows=rows, mask_token=mask)
                self._draft = load(draft, first[0], small)
            elif own_heads:
                self._draft = load_own_heads(self._target, headers[-1].n_embd, options, abort)
        except BaseException:
            self._target.close()
            raise
        self._drafting = Drafting(self._target.vocab, self._draft, vocabularies)

    @property
    def vocab(self) -> LlamaVocab:
        return self._target.vocab

    @property
    def state_key(self) -> str:
        """What `context.save` gave under one key, `context.restore` takes under no other."""
        return self._target.state_key

    @property
    def context(self) -> Context:
        """The target's: logits after any token sequence."""
        return self._target.context

    @property
    def n_ctx(self) -> int:
        return self._target.context.n_ctx

    @property
    def chat_template(self) -> str | None:
        return self._target.model.chat_template

    @property
    def has_draft_model(self) -> bool:
        """Whether a draft model, a head, or heads in the target's file are loaded."""
        return self._draft is not None

    @property
    def files(self) -> list[Path]:
        """The target's file and, where there is one, the draft model's."""
        return [loaded.path for loaded in self._loaded if loaded.path is not None]

    @property
    def placement(self) -> str:
        """What part of which model is on which GPU, in one line; empty where none is."""
        draft = self._draft.placement if self._draft is not None else None
        return summary({"target": self._target.placement, "draft": draft})

    @property
    def gpu_bytes(self) -> dict[str, int]:
        """What the models take of each GPU's memory, by its name."""
        return usage([m.placement for m in self._loaded if m.placement is not None])

    def answer(
        self,
        prompt: Sequence[int],
        request: AnswerRequest,
        *,
        on_prompt: Callable[[int, int], None] | None = None,
        on_round: Callable[[InspectedRound], None] | None = None,
    ) -> Iterator[Chunk | Finished]:
        """Answer the token ids `prompt`; see `generate` for what is yielded and raised.

        `on_prompt` and `on_round` are those of `LocalTarget`. Raises GrammarError for a grammar
        that cannot be used.
        """
        sampling = request.sampling
        self._pad_passes(request.reproducible)
        for costs in self.costs.values():
            costs.begin()
        acceptance = make_rule(request.rule, sampling)

        def transforms() -> Transforms:
            follows = None
            if request.grammar is not None:
                follows = Grammar(request.grammar, self.vocab, len(prompt))
            return Transforms(sampling, follows)

        target = LocalTarget(
            self._target.vocab,
            self._target.context,
            transforms(),
            acceptance,
            logprobs=request.logprobs,
            on_prompt=on_prompt,
            on_round=on_round,
        )
        longest = request.longest_draft
        context = self._target.context
        adaptive = self._controllers.setdefault(
            longest,
            AdaptiveDraftLength(context.pass_seconds, longest=longest, look_at=context.look_at),
        )
        drafters, controller = with_length(
            self._drafting.drafters(request.method(self.method), transforms(), acceptance),
            adaptive,
            request.draft_length,
            longest,
        )
        return generate(
            target,
            drafters,
            controller,
            prompt,
            max_tokens=request.max_tokens,
            stop=request.stop,
            reasoning=None if request.raw else reasoning_format(self.chat_template),
            abort=self.abort,
        )

    def read_ahead(self, prompt: Sequence[int], *, reproducible: bool = False) -> None:
        """Evaluate, while nobody waits, what a later prompt will begin with; raises CancelledError
        when `abort` is set, and what was done until then stays.
        """
        self._pad_passes(reproducible)
        context = self._target.context
        held = common_prefix(as_tokens(prompt), context.tokens)
        if len(prompt) - held >= _WORTH_READING:
            for end in (*range(held + _AHEAD, len(prompt), _AHEAD), len(prompt)):
                context.logits(prompt[:end])

    def draft_model(self, sampling: SamplingParams, rule: AcceptanceRule) -> Drafter | None:
        """The draft model as it drafts for an answer; None where none is loaded."""
        return next(iter(self._drafting.drafters("model", Transforms(sampling), rule)), None)

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        """As `Drafting.remember`."""
        self._drafting.remember(texts)

    @property
    def costs(self) -> dict[str, PassCosts]:
        """What passes cost, by `costs_name`: to be kept, and given back as `LoadOptions.costs`."""
        return {m.costs_name: m.context.costs for m in self._loaded}

    def calibrate(self, *, anew: bool = False) -> bool:
        """Measure what was never measured, or all that is loaded `anew`, a second or two for each
        model; whether any was.

        Raises CancelledError.
        """
        unknown = [loaded for loaded in self._loaded if anew or not loaded.is_calibrated]
        for loaded in unknown:
            loaded.calibrate()
        return bool(unknown)

    def measure_passes(self, *, prefix: int, repeats: int) -> list[dict[int, float]]:
        """Seconds of a pass by its width, for each of `files`; see `calibrate.measure_passes`."""
        with_file = [loaded for loaded in self._loaded if loaded.path is not None]
        return [m.measure_passes(prefix=prefix, repeats=repeats) for m in with_file]

    def forget(self) -> None:
        """Empty the caches: the next answer evaluates its whole prompt."""
        for loaded in self._loaded:
            loaded.context.forget()

    def close(self) -> None:
        if self._draft is not None:
            self._draft.close()
        self._target.close()

    @property
    def _loaded(self) -> list[LoadedModel | LoadedHead]:
        return [loaded for loaded in (self._target, self._draft) if loaded is not None]

    @functools.cached_property
    def width_step(self) -> int | None:
        """With passes padded to a multiple of it a text does not depend on how it was drafted, bit
        for bit; None where this build and model have no such step. Measured at first use, for a
        second or a few: empties the target's cache, raises CancelledError.
        """
        return measure_width_step(self._target.context)

    def _pad_passes(self, reproducible: bool) -> None:
        step = (self.width_step or STEPS[-1]) if reproducible else 1
        for loaded in self._loaded:
            if isinstance(loaded, LoadedModel) and loaded.context.width_step != step:
                # What narrower passes left in the cache may differ in its last bits.
                loaded.context.forget()
                loaded.context.width_step = step
