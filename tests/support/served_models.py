"""Models behind the stand-ins for inference engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specengine.cache.context import Context
from specengine.cache.widths import STEPS, measure_width_step
from specengine.chat.chat_template import Turn, encode_chat
from specengine.core.cancel import AbortFlag
from specengine.core.thread import EngineThread
from specengine.core.tokens import as_tokens
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from support.scoring_stand_ins import ScoringStandIn, running


class BigModel:
    """SmolLM2 in a thread of its own, as the model of a stand-in."""

    def __init__(self, path: Path) -> None:
        self._thread = EngineThread()
        self._thread.call(lambda: self._load(path))

    def _load(self, path: Path) -> None:
        self.model = LlamaModel(path)
        self._cache = LlamaKVCache(
            self.model, n_ctx=1024, n_threads=1, abort=AbortFlag(), max_rows=128
        )
        self._context = Context(self._cache)
        # Rows that do not depend on how many are asked for.
        self._context.width_step = measure_width_step(self._context) or STEPS[-1]

    def rows(self, tokens: list[int], last: int) -> NDArray[np.float32]:
        return self._thread.call(lambda: self._context.logits(as_tokens(tokens), last=last).copy())

    def close(self) -> None:
        self._thread.call(self._cache.close)
        self._thread.call(self.model.close)
        self._thread.close()


class Babbler(BigModel):
    """Costs nothing and says what nobody could guess."""

    def _load(self, path: Path) -> None:
        self.model = LlamaModel(path, vocab_only=True)

    def rows(self, tokens: list[int], last: int) -> NDArray[np.float32]:
        after = tokens[len(tokens) - last :]
        return np.stack(
            [np.random.default_rng(t).standard_normal(self.model.vocab.size) for t in after]
        ).astype(np.float32)

    def close(self) -> None:
        self._thread.call(self.model.close)
        self._thread.close()


@contextmanager
def serving(big: BigModel, engine: str, **options: Any) -> Iterator[ScoringStandIn]:
    model = big.model

    def count_chat(messages: list[dict[str, str]]) -> int:
        turns = [Turn(m["role"], m["content"]) for m in messages]  # type: ignore[arg-type]
        return len(encode_chat(model.chat_template, turns, model.vocab))

    stand_in = ScoringStandIn(
        big.rows,
        lambda text: model.vocab.tokenize(text, bos=True),
        count_chat,
        eos=model.vocab.eos,
        **options,
    )
    with running(stand_in, engine):
        yield stand_in
