"""Scripted models with a cache that fails loudly when misused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specengine.cache.checkpoints import State
from specengine.core.errors import BackendError
from specengine.core.tokens import Tokens

Model = Callable[[Sequence[int]], NDArray[np.float32]]
"""Logits of the next token, shape (n_vocab,), as a pure function of all tokens before it."""

PADDING_CELLS = 64


class FakeVocab:
    """Token i is the letter chr(97 + i); the ids in `eog` end an answer."""

    def __init__(self, size: int, eog: Sequence[int] = (), pieces: dict[int, bytes] | None = None):
        self.size = size
        self.bos = None
        self.eos = None
        self.eog = frozenset(eog)
        self.control: dict[str, int] = {f"<{i}>": i for i in eog}
        self.user_defined: dict[str, int] = {}
        self.fingerprint = f"fake-{size}"
        self._pieces = pieces or {}

    def piece(self, token: int) -> bytes:
        assert 0 <= token < self.size, f"id {token} is outside the vocabulary"
        if token in self.eog:
            return b""
        return self._pieces.get(token, chr(97 + token % 26).encode())

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        return [ord(c) - 97 for c in text]


class FakeKVCache:
    """A `KVCache` whose logits come from what it really holds: a wrong cache gives wrong text.

    It can be cut only after a multiple of `stops_every` tokens, as a model with checkpoints can;
    with a large number only cleared.
    """

    def __init__(
        self,
        model: Model,
        n_vocab: int,
        *,
        n_ctx: int = 256,
        n_batch: int = 64,
        max_rows: int = 32,
        stops_every: int = 1,
    ) -> None:
        self.n_ctx, self.n_vocab, self.n_batch, self.max_rows = n_ctx, n_vocab, n_batch, max_rows
        self.decode_s = 0.0
        self.passes = 0
        self.widths: list[int] = []
        self.held: list[int] = []
        self.can_save = True
        self.before_decode: Callable[[], None] = lambda: None
        """Called in the middle of each pass: raise here to break it after half of its tokens."""
        self._model = model
        self._stops_every = stops_every
        self.drops_freely = stops_every == 1

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> NDArray[np.float32]:
        n = len(tokens)
        assert 1 <= n <= self.n_batch, f"a batch of {n} tokens kills the process"
        assert pos == len(self.held), f"a gap: position {pos}, cache holds {len(self.held)}"
        assert pos + n <= self.n_ctx + PADDING_CELLS, "no free cell"
        assert 0 <= rows.start <= rows.stop <= n
        assert rows.stop - rows.start <= self.max_rows, "too many rows kill the process"
        assert all(0 <= t < self.n_vocab for t in tokens.tolist()), "an id outside the vocabulary"
        self.passes += 1
        self.decode_s += 0.001
        self.widths.append(n)
        half = n // 2
        self.held.extend(tokens[:half].tolist())
        try:
            self.before_decode()
        except BaseException:
            self._cut(len(self.held))
            raise
        self.held.extend(tokens[half:].tolist())
        if rows.start == rows.stop:
            return np.empty((0, self.n_vocab), dtype=np.float32)
        result = [self._model(self.held[: pos + i + 1]) for i in range(rows.start, rows.stop)]
        return np.stack(result).astype(np.float32)

    def truncate(self, length: int) -> int:
        assert 0 <= length <= len(self.held), f"cannot trim {len(self.held)} to {length}"
        if length < len(self.held):
            self._cut(length)
        return len(self.held)

    def _cut(self, length: int) -> None:
        del self.held[length - length % self._stops_every :]

    def clear(self) -> None:
        self.held.clear()

    def length(self) -> int:
        return len(self.held)

    def save(self) -> State | None:
        return np.array(self.held, dtype=np.uint8) if self.can_save else None

    def restore(self, state: State) -> None:
        self.held = state.tolist()


def markov(n_vocab: int, seed: int, *, order: int = 3, sharpness: float = 3.0) -> Model:
    """A random model: logits depend on the last `order` tokens."""

    def model(tokens: Sequence[int]) -> NDArray[np.float32]:
        key = [seed, *tokens[-order:]]
        rng = np.random.default_rng(key)
        return (sharpness * rng.standard_normal(n_vocab)).astype(np.float32)

    return model


def scripted(n_vocab: int, script: Sequence[int], start: int) -> Model:
    """Says `script` after `start` tokens, whatever those are; then repeats its last token."""

    def model(tokens: Sequence[int]) -> NDArray[np.float32]:
        logits = np.zeros(n_vocab, dtype=np.float32)
        logits[script[min(max(len(tokens) - start, 0), len(script) - 1)]] = 10.0
        return logits

    return model


def greedy_continuation(model: Model, prompt: Sequence[int], n: int) -> list[int]:
    """What the model says alone, one token a time: the reference for every greedy run."""
    tokens = list(prompt)
    for _ in range(n):
        tokens.append(int(model(tokens).argmax()))
    return tokens[len(prompt) :]


class BrokenPassError(BackendError):
    """Raised by tests inside a pass."""
