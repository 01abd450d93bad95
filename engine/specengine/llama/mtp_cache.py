"""Heads for multi-token prediction that come in the target's own file (NextN layers).

Their input is the target's hidden state after its last layer (DeepSeek-AI 2024). Where a file has
several, each is made for one draft token: the second is drafted by the second head, and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specengine.cache.context import Logits
from specengine.cache.features import Features
from specengine.core.tokens import Tokens
from specengine.llama import extensions, library
from specengine.llama.head_cache import HeadCache
from specengine.llama.model import LlamaModel


class FinalStates:
    """A target's hidden states after its last layer: a `FeatureSource`."""

    name = "final states"

    def __init__(self, context: Any, n_embd: int) -> None:
        """Record from now on in `context`, llama.cpp's of a model that
        `files.mtp.check_own_heads` passed.
        Raises BackendError where this build of llama.cpp cannot.
        """
        self._context = context
        self.width = n_embd
        self._get = extensions.function("llama_get_embeddings_nextn")
        extensions.function("llama_set_embeddings_nextn")(context, True, False)

    def read(self, n_tokens: int, into: Features) -> None:
        into[:] = np.ctypeslib.as_array(self._get(self._context), shape=(n_tokens, self.width))


class MtpCache(HeadCache):
    """The heads of a model that was loaded with them, in a context of their own."""

    def __init__(self, model: LlamaModel, target: Any, **settings: Any) -> None:
        self._select = extensions.function("llama_set_nextn_layer_offset")
        llama = library.load()
        super().__init__(model, target, context_type=llama.LLAMA_CONTEXT_TYPE_MTP, **settings)
        self._n_heads = int(llama.llama_model_n_layer_nextn(model.handle))
        if self._n_heads > 1:
            self.longest = self._n_heads
        # The last row of the text and those of the draft, as each head has to see them.
        self._chain: tuple[Tokens, Features, int] | None = None

    @property
    def width(self) -> int:
        return self.n_embd

    def fuse(self, features: Features) -> Features:
        return features

    def decode(
        self, tokens: Tokens, hidden: Features, pos: int, *, drafted: int, last: bool
    ) -> tuple[Logits, Features] | None:
        if self._n_heads == 1:
            return super().decode(tokens, hidden, pos, drafted=drafted, last=last)
        if drafted:
            assert self._chain is not None
            before, states, pos = self._chain
            tokens, hidden = np.append(before, tokens), np.concatenate((states, hidden))
            self._chain = tokens, hidden, pos
        else:
            self._chain = tokens[-1:].copy(), hidden[-1:].copy(), pos + len(tokens) - 1
            # Each head has keys and values of its own for the text; the first one speaks.
            for head in range(self._n_heads - 1, 0, -1):
                self._run(head, tokens, hidden, pos, last=False)
        return self._run(drafted, tokens, hidden, pos, last=last)

    def _run(
        self, head: int, tokens: Tokens, hidden: Features, pos: int, *, last: bool
    ) -> tuple[Logits, Features] | None:
        self.truncate(pos)
        self._select(self.handle, head)
        return super().decode(tokens, hidden, pos, drafted=0, last=last)
