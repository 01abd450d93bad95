"""The cache of models with a recurrent state, which cannot drop a suffix (Mamba, RWKV, hybrids).

Three ways back, the first that is possible: llama.cpp's own snapshots of the last pass, where the
architecture has them; else a checkpoint of the state, after which the tokens between are evaluated
again; else nothing is left and everything is evaluated again.
"""

from __future__ import annotations

from typing import Any

from specengine.cache.checkpoints import Checkpoint, Checkpoints
from specengine.cache.context import Logits
from specengine.core.tokens import Tokens
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel


class RecurrentKVCache(LlamaKVCache):
    """As `LlamaKVCache`; `truncate` may drop more than it was asked to."""

    drops_freely = False

    def __init__(self, model: LlamaModel, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._snapshots: int = self._llama.llama_n_rs_seq(self.handle)
        self._within_snapshots = 0  # tokens that the snapshots can take back now
        self._checkpoints = Checkpoints()
        # What is not the recurrent state (the keys and values of a hybrid) drops a suffix as usual.
        self._flags = self._llama.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> Logits:
        self._within_snapshots = 0
        if pos > 0:
            self._checkpoints.add(pos, self._read_state(self._flags))
        try:
            result = super().decode(tokens, pos, rows)
        except BaseException:
            # The state may be that of any token of the pass, whatever llama.cpp says it is.
            self._return_to(pos)
            raise
        # A pass snapshots the states between its own tokens, not the one before it: planes beyond
        # are left from earlier passes, and llama.cpp does not check.
        self._within_snapshots = min(len(tokens) - 1, self._snapshots)
        return result

    def truncate(self, length: int) -> int:
        held = self.length()
        if held <= length:
            return held
        # llama.cpp itself refuses a second use of the snapshots before the next pass.
        if held - length <= self._within_snapshots and self._remove(length):
            return length
        return self._return_to(length)

    def clear(self) -> None:
        super().clear()
        self._checkpoints.clear()
        self._within_snapshots = 0

    def _return_to(self, length: int) -> int:
        self._within_snapshots = 0
        checkpoint = self._checkpoints.before(length)
        if checkpoint is not None and self._return_to_checkpoint(checkpoint):
            return checkpoint.length
        self.clear()
        return 0

    def _return_to_checkpoint(self, checkpoint: Checkpoint) -> bool:
        # A memory that is not wholly back there, of whatever kind, has to be evaluated anew.
        return (
            self._write_state(checkpoint.state, self._flags)
            and self.length() == checkpoint.length
            and self._remove(checkpoint.length)
        )
