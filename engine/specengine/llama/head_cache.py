"""llama.cpp's contexts of heads: models that go on from the hidden states of another."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from specengine.cache.context import Logits
from specengine.cache.features import Features
from specengine.core.errors import BackendError
from specengine.core.tokens import Tokens
from specengine.llama import extensions
from specengine.llama.batch import pointer
from specengine.llama.context import LlamaContext
from specengine.llama.model import LlamaModel

_N_BATCH = 64  # llama.cpp makes room for the logits of each row of a batch


class HeadModel(LlamaModel):
    """A model that writes nothing alone."""

    def _writes_token_by_token(self) -> bool:
        return True


class CompanionCache(LlamaContext):
    """The context of a head beside that of its target."""

    def __init__(self, model: LlamaModel, target: Any, **settings: Any) -> None:
        """`target`: the target's llama.cpp context, which must outlive this one: the head may
        borrow its embeddings and its output matrix. `settings` as for `LlamaContext`. Raises
        ModelFileError, OutOfMemoryError or BackendError.
        """
        self._get_hidden = extensions.function("llama_get_embeddings_nextn")
        super().__init__(model, target=target, n_batch=_N_BATCH, max_rows=_N_BATCH, **settings)
        self.n_embd = int(self._llama.llama_model_n_embd(model.handle))

    def truncate(self, length: int) -> None:
        if not self._remove(length):
            raise BackendError(f"llama.cpp cannot remove the rows after {length} of a head")

    def _call(
        self,
        function: Any,
        tokens: Tokens | None,
        embd: Features | None,
        pos: int | None,
        *,
        output: bool,
    ) -> int | None:
        """One pass, at position `pos` or the next; the address of its rows. The graphs of heads
        compute every row: either all of them are asked for, or none.
        """
        n = next(len(given) for given in (tokens, embd) if given is not None)
        rows = None if embd is None else np.ascontiguousarray(embd, dtype=np.float32)
        ids = None if tokens is None else np.ascontiguousarray(tokens, dtype=np.int32)
        positions = None if pos is None else _positions(pos, n)
        outputs = np.full(n, output, dtype=np.int8)
        batch = self._llama.llama_batch(
            n_tokens=n,
            token=None if ids is None else pointer(ids, ctypes.c_int32),
            embd=None if rows is None else pointer(rows, ctypes.c_float),
            pos=None if positions is None else pointer(positions, ctypes.c_int32),
            logits=pointer(outputs, ctypes.c_int8),
        )
        return self._pass(function, batch, f"{n} rows of a head")

    def _hidden(self, n: int) -> Features:
        """What the last pass left for the next head step: a view of shape (n, n_embd)."""
        shape = (n, self.n_embd)
        rows: Features = np.ctypeslib.as_array(self._get_hidden(self.handle), shape=shape)
        return rows


class HeadCache(CompanionCache, ABC):
    """A head that takes one step for each draft token: the real `cache.head_context.Head`."""

    longest: int | None = None

    def __init__(self, model: LlamaModel, target: Any, **settings: Any) -> None:
        enable = extensions.function("llama_set_embeddings_nextn")
        super().__init__(model, target, **settings)
        enable(self.handle, True, True)

    @property
    @abstractmethod
    def width(self) -> int: ...

    @abstractmethod
    def fuse(self, features: Features) -> Features: ...

    def decode(
        self, tokens: Tokens, hidden: Features, pos: int, *, drafted: int, last: bool
    ) -> tuple[Logits, Features] | None:
        n = len(tokens)
        address = self._call(self._llama.llama_decode, tokens, hidden, pos, output=last)
        return (self._rows(address, n)[-1], self._hidden(n)[-1:].copy()) if last else None


class Eagle3Cache(HeadCache):
    """An EAGLE-3 head (Li et al. 2025): an encoder fuses the inputs of three of the target's
    layers into a hidden state, from which a decoder layer goes on.
    """

    def __init__(self, model: LlamaModel, target: Any, *, width: int, **settings: Any) -> None:
        """`width`: that of the features. The header has passed `files.head_files.check_head`."""
        super().__init__(model, target, **settings)
        self._width = width

    @property
    def width(self) -> int:
        return self._width

    def fuse(self, features: Features) -> Features:
        self._call(self._llama.llama_encode, None, features, None, output=True)
        return self._hidden(len(features)).copy()


def _positions(start: int, n: int) -> Tokens:
    """Those of `n` rows. Where rotary positions have sections, they come section by section: three
    alike and one of zeros. Other models read the first.
    """
    positions = np.tile(np.arange(start, start + n, dtype=np.int32), 4)
    positions[3 * n :] = 0
    return positions
