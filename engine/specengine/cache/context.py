"""The KV cache follows the text: logits are asked of a token sequence, never "of the next token".

Rejected drafts, edits, regeneration, branches, cancellation and the next turn are then one case:
another sequence. The context keeps the longest common prefix, drops the rest, evaluates what is
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specengine.cache.checkpoints import State
from specengine.cache.costs import PROMPT, PassCosts
from specengine.cache.features import FeatureBuffer, Features, FeatureSource
from specengine.core.errors import BackendError, ContextFullError
from specengine.core.tokens import TokenBuffer, Tokens, as_tokens, common_prefix

Logits = NDArray[np.float32]

_DRAFT_STEP = 2  # tokens that a draft model evaluates for one row, at most


class KVCache(Protocol):
    """One model with one sequence in its KV cache, at the level of llama.cpp's calls."""

    n_ctx: int
    """Most tokens that the cache can hold."""
    n_vocab: int
    n_batch: int
    """Most tokens of one `decode`."""
    max_rows: int
    """Most rows of logits that one `decode` returns."""
    drops_freely: bool
    """Whether it can drop any suffix, any number of times, without evaluating tokens again."""

    decode_s: float
    """Seconds spent inside decode and synchronize calls so far."""
    passes: int
    """Number of `decode` calls so far."""

    def decode(self, tokens: Tokens, pos: int, rows: slice) -> Logits:
        """Evaluate `tokens` at positions `pos`…, return the logits of `tokens[rows]`.

        `rows` has a start and a stop and may be empty. The result has shape (n_rows, n_vocab) and
        is a view, valid until the next call. Raises CancelledError where the pass was aborted,
        BackendError where it failed; then `length()` tells what is left in the cache.
        """
        ...

    def truncate(self, length: int) -> int:
        """Drop everything from position `length` on, or more where the model cannot end there.

        Returns how many tokens are left.
        """
        ...

    def clear(self) -> None: ...

    def length(self) -> int:
        """Tokens that the cache really holds."""
        ...

    def save(self) -> State | None:
        """A copy of all that the cache holds; None where a copy would not be the whole of it."""
        ...

    def restore(self, state: State) -> None:
        """Hold what a cache of the same model and build has saved, or nothing; see `length`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SavedCache:
    """What a context held: `tokens`, evaluated in passes padded to a multiple of `width_step`."""

    tokens: Tokens
    width_step: int
    state: State


class Context:
    """Logits of token sequences, with as little evaluation as the cached prefix allows."""

    def __init__(
        self, cache: KVCache, *, width_step: int = 1, costs: PassCosts | None = None
    ) -> None:
        """`costs` learns from every pass. Passes are padded to a multiple of `width_step` tokens:
        which kernel computes a row, and how it rounds, may depend on the width of the pass, and
        with the right step it does not (`--reproducible`; see `specengine.cache.widths`).
        """
        self._cache = cache
        self._held = TokenBuffer()
        self.width_step = width_step
        self.costs = costs or PassCosts()
        self._look = 0  # what the next pass is widened to
        self._source: FeatureSource | None = None
        self._features = FeatureBuffer(0, 0)

    @property
    def n_ctx(self) -> int:
        return self._cache.n_ctx

    @property
    def n_vocab(self) -> int:
        return self._cache.n_vocab

    @property
    def max_rows(self) -> int:
        return self._cache.max_rows

    @property
    def decode_s(self) -> float:
        """Seconds inside llama.cpp's decode and synchronize calls so far."""
        return self._cache.decode_s

    @property
    def passes(self) -> int:
        return self._cache.passes

    @property
    def tokens(self) -> Tokens:
        """The tokens whose keys and values the cache holds."""
        return self._held.view()

    @property
    def features(self) -> Features:
        """What `record` asked for, a row for each of `tokens`: valid until the next call."""
        return self._features.view()

    @property
    def recorded(self) -> str:
        """What `features` are, where there are any."""
        return "" if self._source is None else self._source.name

    def record(self, source: FeatureSource) -> None:
        """Keep the features of every token that the cache holds, from now on: it is emptied.

        They take n_ctx * source.width * 4 bytes at most.
        """
        self.forget()
        self._source = source
        self._features = FeatureBuffer(self.n_ctx, source.width)

    def cheapest_width(self, width: int) -> int:
        """What a pass over `width` tokens is best padded to: a wider one may cost less."""
        if not self._cache.drops_freely:
            return self.padded(width)
        return self.costs.cheapest(width, self.width_step)

    def pass_seconds(self, width: int) -> float:
        """What a pass over `width` tokens costs at its cheapest width."""
        return self.costs.seconds(self.cheapest_width(width))

    def look_at(self, width: int) -> None:
        """Let the next evaluation be as wide as a pass over `width` tokens, with as many rows of
        logits, so that its cost is measured anew; what it returns is the same.
        """
        cheapest = self.cheapest_width(width)
        if self._cache.drops_freely and cheapest <= self.max_rows:
            self._look = cheapest

    def logits(
        self,
        tokens: Iterable[int] | Tokens,
        last: int = 1,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        width: int = 1,
    ) -> Logits:
        """Logits after each of the last `last` tokens of `tokens`, shape (last, n_vocab).

        The result is a view, valid until the next call. `on_progress(done, total)` is called after
        each chunk of an evaluation longer than a batch; the last of them is padded to `width`
        tokens. Raises ContextFullError where `tokens` does not fit, CancelledError or BackendError
        where a pass did not finish: the cache is valid even then.
        """
        wanted = as_tokens(tokens)
        shared = common_prefix(wanted, self._held.view())
        self._check(wanted, shared, last)
        # The rows that are asked for must be evaluated even where their tokens are cached.
        keep = min(shared, len(wanted) - last)
        self._drop_after(keep)
        start = len(self._held)
        first_row = len(wanted) - last
        result: Logits | None = None
        chunks = _chunks(start, first_row, len(wanted), self._cache.n_batch, self.width_step)
        is_long = len(chunks) > 1
        look, self._look = self._look, 0
        if not self._cache.drops_freely:
            chunks[-1:] = _catch_up(*chunks[-1], first_row, self.width_step)
        for chunk_start, chunk_end in chunks:
            widths = (width, look) if chunk_end == len(wanted) else (1, 0)
            result = self._evaluate(wanted, chunk_start, chunk_end, first_row, *widths)
            if on_progress is not None and is_long:
                on_progress(chunk_end - start, len(wanted) - start)
        assert result is not None
        return result

    def forget(self) -> None:
        """Empty the cache."""
        self._cache.clear()
        self._hold(0)

    def save(self, tokens: Iterable[int] | Tokens) -> SavedCache | None:
        """A copy of what is held of `tokens`; what else is held is dropped.

        None where the model's cache cannot be copied whole (sliding windows).
        """
        self._drop_after(common_prefix(as_tokens(tokens), self._held.view()))
        state = self._cache.save()
        if state is None:
            return None
        if self._source is not None:
            state = np.concatenate((state, self.features.view(np.uint8).ravel()))
        return SavedCache(self.tokens.copy(), self.width_step, state)

    def restore(self, saved: SavedCache) -> bool:
        """Go on from what a context of the same model, build, `n_ctx` and `recorded` saved: what
        follows is bit for bit what it would have been there. False where that cannot be: nothing
        is held.
        """
        self.forget()
        n_tokens, width = len(saved.tokens), 0 if self._source is None else self._source.width
        n_state = len(saved.state) - n_tokens * width * np.dtype(np.float32).itemsize
        if n_tokens > self.n_ctx or n_state < 0:
            return False
        self.width_step = saved.width_step
        self._cache.restore(saved.state[:n_state])
        if self._cache.length() != len(saved.tokens):
            self.forget()
            return False
        self._held.extend(saved.tokens)
        if self._source is not None:
            rows = saved.state[n_state:].view(np.float32)
            self._features.extend(rows.reshape(n_tokens, width))
        return True

    def _check(self, tokens: Tokens, known: int, last: int) -> None:
        """The first `known` tokens are held already."""
        n = len(tokens)
        if not 1 <= last <= min(n, self._cache.max_rows):
            raise ValueError(
                f"{last} rows of {n} tokens asked for, but the cache returns at most "
                f"{self._cache.max_rows}"
            )
        if n > self._cache.n_ctx:
            raise ContextFullError(
                f"{n} tokens do not fit into a context of {self._cache.n_ctx}: "
                "shorten the text or raise --ctx"
            )
        if known == n:
            return
        new = tokens[known:].tolist()
        low, high = min(new), max(new)
        if low < 0 or high >= self._cache.n_vocab:
            bad = low if low < 0 else high
            raise BackendError(f"token id {bad} is outside the vocabulary (0…{self.n_vocab - 1})")

    def _drop_after(self, length: int) -> None:
        if length < len(self._held):
            self._hold(self._cache.truncate(length))

    def _hold(self, length: int) -> None:
        """The cache has come to hold no more than the first `length` tokens."""
        self._held.truncate(length)
        if self._source is not None:
            self._features.truncate(length)

    def _evaluate(
        self, tokens: Tokens, start: int, end: int, first_row: int, width: int, look: int
    ) -> Logits:
        chunk = tokens[start:end]
        padding = self.padded(max(width, look, len(chunk))) - len(chunk)
        padded = np.append(chunk, np.repeat(chunk[-1:], padding)) if padding else chunk
        rows = slice(min(max(first_row, start), end) - start, end - start)
        computed = slice(rows.start, max(rows.stop, look))
        before = self._cache.decode_s
        try:
            result = self._cache.decode(padded, start, computed)[: rows.stop - rows.start]
        except BaseException:
            self._resync(chunk)
            raise
        self._held.extend(chunk)
        if self._source is not None:
            self._features.read(self._source, len(chunk))
        self._learn(len(padded), rows, self._cache.decode_s - before)
        if padding:
            self._hold(self._cache.truncate(end))
        return result

    def padded(self, width: int) -> int:
        """How wide a pass over `width` tokens is, unless `logits` is asked for a wider one."""
        return width + -width % self.width_step

    def _learn(self, width: int, rows: slice, seconds: float) -> None:
        if rows.start == 0 or width <= _DRAFT_STEP:
            self.costs.observe(width, seconds)
        elif width >= PROMPT or rows.stop - rows.start <= 1:
            self.costs.observe_prompt(width, seconds)

    def _resync(self, chunk: Tokens) -> None:
        """After a failed pass: hold exactly what the cache kept of it."""
        if self._source is not None and self._cache.length() > len(self._held):
            self._cache.truncate(len(self._held))  # what was kept has no features
        kept = self._cache.length() - len(self._held)
        if 0 <= kept <= len(chunk):
            self._held.extend(chunk[:kept])
        else:
            self.forget()


def _chunks(
    start: int, first_row: int, end: int, n_batch: int, width_step: int
) -> list[tuple[int, int]]:
    """Split [start, end) into passes of at most `n_batch`; all asked rows lie in the last one.

    The others need no padding: their widths are multiples of `width_step`.
    """
    widest = n_batch - n_batch % width_step
    chunks = []
    while end - start > widest:
        width = min(widest, first_row - start)
        assert width >= width_step, "a batch has no room for its rows and one step"
        chunks.append((start, start + width - width % width_step))
        start = chunks[-1][1]
    chunks.append((start, end))
    return chunks


def _catch_up(start: int, end: int, first_row: int, width_step: int) -> list[tuple[int, int]]:
    """The pass [start, end), or two of which the second begins at its rows.

    For caches that go back to where a pass began when any of its rows is rejected: what lies before
    the rows is then evaluated again with the next ones. It would grow from one rejection to the
    next, so it gets a pass of its own once it is as long as they are. One row alone is no draft.
    """
    before, rows = first_row - start, end - first_row
    middle = first_row - before % width_step
    if rows == 1 or before < max(rows, width_step):
        return [(start, end)]
    return [(start, middle), (middle, end)]
