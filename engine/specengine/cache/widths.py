"""Whether a row of logits depends on which rows are evaluated with it.

Our own kernels (engine/kernels) compute a row the same way whatever is beside it. llama.cpp's take
rows in blocks, and what is left over at the end of a pass goes through others that round
differently. So the bits of a row may depend on the width of its pass, and on the widths of the
passes that filled the cache before it. `--reproducible` pads every pass to a multiple of so many
rows that nothing is left over. How many that are depends on the build, the CPU and the
quantizations of the model, so it is measured, never assumed: 1 with our kernels, else 2 with AMX
and 8 without was seen, with flash attention off; with it on there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from specengine.cache.calibrate import learning_nothing, padded_to
from specengine.cache.context import Context, Logits
from specengine.core.tokens import Tokens, as_tokens

STEPS = (1, 2, 4, 8, 16)

_TEXT = 64  # tokens of the text that is tried
LONG_TEXT = 544  # … and of a second: over 512 cells one row may have kernels of its own
_ROWS = 8  # that are compared
_WIDTHS = (1, 3)


def measure_width_step(context: Context) -> int | None:
    """The smallest of `STEPS` that makes rows independent of their neighbours, if one does.

    Takes some thirty passes for each step that is tried, of at most 64 tokens, and as many over a
    longer text where 1 seems to be one. See `rows_agree`.
    """
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, context.n_vocab, min(LONG_TEXT, context.n_ctx)).tolist()
    return smallest_step(
        lambda step: rows_agree(context, tokens[:_TEXT], step),
        lambda step: rows_agree(context, tokens, step),
    )


def smallest_step(
    is_stable: Callable[[int], bool], is_stable_in_long_text: Callable[[int], bool]
) -> int | None:
    """The first of `STEPS` that is stable, None without one; 1 has to be so in a long text, too."""
    return next(
        (s for s in STEPS if is_stable(s) and (s > 1 or is_stable_in_long_text(s))),
        None,
    )


def rows_agree(context: Context, tokens: Sequence[int], step: int) -> bool:
    """Whether the last 8 rows of `tokens` have the same bits however they are evaluated, given
    passes padded to multiples of `step`.

    Compared are the whole text in one pass, and other cuts of its beginning followed by narrow
    passes. `context` is left empty, learns no costs, and pads as it did before. Raises what
    `Context.logits` raises.
    """
    sequence = as_tokens(tokens)
    start = len(sequence) - _ROWS
    context.forget()
    with learning_nothing(context), padded_to(context, step):
        expected = _rows(context, sequence, _ROWS)
        context.forget()
        for cut in (start // 3, start // 2 + 1, start):
            context.logits(sequence[:cut])
        return all(np.array_equal(_rows(context, sequence, w), expected) for w in _WIDTHS)


def _rows(context: Context, tokens: Tokens, width: int) -> Logits:
    """Logits of the last rows of `tokens`, from passes that add `width` of them."""
    rows = []
    for start in range(len(tokens) - _ROWS, len(tokens), width):
        end = min(start + width, len(tokens))
        rows.append(context.logits(tokens[:end], end - start).copy())
    return np.concatenate(rows)
