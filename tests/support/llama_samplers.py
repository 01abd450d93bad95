"""llama.cpp's own samplers, in the order of its default chain, over one row of logits."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specengine.core.distribution import Distribution
from specengine.llama import library
from specengine.sampling import SamplingParams

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def llama_distribution(
    row: NDArray[np.float32], history: NDArray[np.int32], params: SamplingParams
) -> Distribution:
    llama = library.load()
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    n_vocab = len(row)
    bias = (llama.llama_logit_bias * len(params.logit_bias))(*params.logit_bias.items())
    for sampler in (
        llama.llama_sampler_init_logit_bias(n_vocab, len(bias), bias),
        llama.llama_sampler_init_penalties(
            n_vocab,
            params.repeat_last_n,
            params.repeat_penalty,
            params.frequency_penalty,
            params.presence_penalty,
        ),
        llama.llama_sampler_init_top_k(params.top_k),
        llama.llama_sampler_init_typical(params.typical_p, 0),
        llama.llama_sampler_init_top_p(params.top_p, 0),
        llama.llama_sampler_init_min_p(params.min_p, 0),
        llama.llama_sampler_init_temp_ext(params.temperature, 0.0, 1.0),
        llama.llama_sampler_init_dist(0),
    ):
        llama.llama_sampler_chain_add(chain, sampler)
    for token in history.tolist():
        llama.llama_sampler_accept(chain, token)
    candidates = apply(chain, np.arange(n_vocab, dtype=np.int32), row)
    llama.llama_sampler_free(chain)
    candidates = candidates[candidates["p"] > 0]
    candidates.sort(order="id")
    return Distribution(candidates["id"].copy(), candidates["p"].astype(np.float64))


def apply(sampler: Any, ids: NDArray[np.int32], logits: NDArray[np.float32]) -> NDArray[np.void]:
    """The candidates (id, logit, p) that `sampler` leaves."""
    llama = library.load()
    candidates = np.zeros(len(ids), dtype=_CANDIDATE)
    candidates["id"], candidates["logit"] = ids, logits
    data = candidates.ctypes.data_as(llama.llama_token_data_p)
    array = llama.llama_token_data_array(data, len(ids), -1, False)
    llama.llama_sampler_apply(sampler, ctypes.byref(array))
    return candidates[: array.size]
