"""What drafts here for a remote target: its draft model has the GPU of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Backend
from specchat.backends.prompts import encode_prompt
from specengine.cache.costs import PassCosts
from specengine.chat.chat_template import Turn
from specengine.core.cancel import AbortFlag
from specengine.files.compatibility import Comparison
from specengine.files.gguf import read_gguf
from specengine.llama.model import LlamaModel
from specengine.llama.offload import load_smaller, plan
from specengine.llama.placement import summary
from specengine.load.drafting import Drafting, DraftMethod
from specengine.load.loaded_model import LoadedModel, LoadOptions


class DraftingHere(Backend[Sequence[int]]):
    """A target on a server that verifies what is drafted here."""

    def __init__(
        self,
        vocabulary: LlamaModel,
        n_ctx: int,
        method: DraftMethod,
        draft: LoadedModel | None,
        vocabularies: Comparison | None = None,
    ) -> None:
        """`vocabulary`: a model with the target's, and its chat template."""
        self.method = method
        self.vocab = vocabulary.vocab
        self.chat_template = vocabulary.chat_template
        self.n_ctx = n_ctx
        self._draft = draft
        self._drafting = Drafting(self.vocab, draft, vocabularies)
        if draft is not None:
            self.files = [draft.model.path]
            self.placement = summary({"draft": draft.placement})

    @property
    def costs(self) -> dict[str, PassCosts]:
        return {} if self._draft is None else {self._draft.costs_name: self._draft.context.costs}

    def remember(self, texts: Iterable[Sequence[int]]) -> None:
        self._drafting.remember(texts)

    def encode(
        self, turns: Sequence[Turn], options: AnswerOptions
    ) -> tuple[Sequence[int], tuple[str, ...]]:
        return encode_prompt(self, turns, options)


def load_draft_model(
    path: Path,
    options: LoadOptions,
    abort: AbortFlag,
    on_progress: Callable[[str, float], None],
    on_notice: Callable[[str], None],
) -> LoadedModel:
    """Load it on the GPU as far as it fits, or as `options` say; in the engine thread.

    `on_progress(file name, fraction)`; `on_notice` hears where less than planned had room. Raises
    ModelFileError, BackendError, CancelledError.
    """
    [placement] = plan([read_gguf(path)], options.n_ctx, [options.gpu_layers.draft])
    return load_smaller(
        placement,
        lambda smaller: LoadedModel(
            path,
            options,
            abort,
            1,
            lambda done: on_progress(path.name, done),
            placement=smaller,
        ),
        lambda notice: on_notice(f"{path.name}: {notice}"),
    )
