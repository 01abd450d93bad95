"""The process that converts a draft model and measures what that brings.

    python -m specengine.load.cheaper_draft_child SOURCE.gguf CONVERTED.gguf [--plain]

prints a line of JSON: the fields of `cheaper_draft.Measured`.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specengine.core.cancel import AbortFlag
from specengine.core.errors import SpecEngineError
from specengine.core.tokens import as_tokens
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.llama.probe_child import die_quietly
from specengine.llama.quantize import to_q4_0
from specengine.llama.threads import default_threads
from specengine.load.cheaper_draft import PLAIN

_TEXT = (
    "The harbour was quiet when the first boats came in, and nobody had yet lit the lamps. "
    "1. Read the file. 2. Split it into lines. 3. Return those that are not empty:\n\n"
    "def lines(path):\n    with open(path) as file:\n"
    "        return [line for line in file if line.strip()]\n"
)
_REPEATS = 12


def main(source: Path, converted: Path, *, use_extra_bufts: bool) -> None:
    die_quietly()
    to_q4_0(source, converted, n_threads=default_threads())
    with ExitStack() as stack:
        caches, tokens = [], None
        for path in (source, converted):
            model = stack.enter_context(LlamaModel(path, use_extra_bufts=use_extra_bufts))
            tokens = tokens or model.vocab.tokenize(_TEXT)
            cache = LlamaKVCache(
                model,
                max_rows=len(tokens),
                n_ctx=len(tokens) + 1,
                n_threads=default_threads(),
                abort=AbortFlag(),
            )
            caches.append(stack.enter_context(cache))
        assert tokens is not None
        rows = [_probabilities(cache, tokens) for cache in caches]
        overlap = float(np.minimum(*rows).sum(axis=1).mean())
        # In turn, and the least of several: what else the machine does now says nothing.
        times = [[_pass_s(cache, tokens) for cache in caches] for _ in range(_REPEATS)]
        before_s, after_s = np.min(times, axis=0).tolist()
    print(json.dumps({"before_s": before_s, "after_s": after_s, "overlap": min(overlap, 1.0)}))


def _probabilities(cache: LlamaKVCache, tokens: list[int]) -> NDArray[np.float32]:
    """Of the token after each of `tokens`, shape (len(tokens), n_vocab)."""
    logits = cache.decode(as_tokens(tokens), 0, slice(0, len(tokens)))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float32] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def _pass_s(cache: LlamaKVCache, tokens: list[int]) -> float:
    cache.truncate(len(tokens))
    before = cache.decode_s
    cache.decode(as_tokens(tokens[-1:]), len(tokens), slice(0, 1))
    return cache.decode_s - before


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), use_extra_bufts=PLAIN not in sys.argv)
    except SpecEngineError as error:
        sys.exit(str(error))
