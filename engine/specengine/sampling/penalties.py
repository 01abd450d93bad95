"""Repeat, frequency and presence penalties over the last tokens of the history."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specengine.sampling.params import SamplingParams


def penalise(row: NDArray[np.float32], history: NDArray[np.int32], params: SamplingParams) -> None:
    """Lower the logits in `row` (n_vocab,) of what the last `repeat_last_n` tokens hold, in place.

    As llama.cpp's penalties sampler: the repeat penalty divides a positive logit and multiplies one
    that is not (Keskar et al. 2019, mended); frequency counts occurrences, presence does not.
    """
    tokens, counts = np.unique(history[-params.repeat_last_n :], return_counts=True)
    logits = row[tokens]
    repeat = np.float32(params.repeat_penalty)
    logits = np.where(logits <= 0, logits * repeat, logits / repeat)
    logits -= counts.astype(np.float32) * np.float32(params.frequency_penalty)
    logits -= np.float32(params.presence_penalty)
    row[tokens] = logits
