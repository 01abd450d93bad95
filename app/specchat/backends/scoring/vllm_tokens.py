"""vLLM's `/inference/v1/generate`, in builds for scaling out: scores for named tokens only.

It takes a list of candidates for each position behind `prompt_logprob_start`, here the one draft
token, and answers with a matrix. Enough for the way `draws`; what the most probable tokens are it
does not tell.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from specchat.backends.bounds import Logprob, TokenId
from specchat.backends.scoring.dialect import Part, Request, Scored, ServerToken, parsed, require
from specengine.stream.scoring import ScoresError, TopN


class _Content(Part):
    logprob: Logprob


class _Contents(Part):
    content: tuple[_Content, ...] = ()


class _Choice(Part):
    token_ids: tuple[TokenId, ...] = ()
    logprobs: _Contents | None = None


class _Answer(Part):
    choices: tuple[_Choice, ...] = ()
    prompt_token_id_logprobs: str | None = None
    """An .npy file in base64; null if the server took some of the prompt from its cache."""


def request(model: str, text: Sequence[int], draft: Sequence[int]) -> Request:
    sampling: dict[str, Any] = {
        **{"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
        **{"max_tokens": 1, "ignore_eos": True, "logprobs": 1},
    }
    if draft:
        sampling["prompt_logprob_token_ids"] = [[token] for token in draft]
        sampling["prompt_logprob_start"] = len(text) - 1
    body = {"model": model, "token_ids": [*text, *draft], "sampling_params": sampling}
    return Request("/inference/v1/generate", body)


def scored(answer: Any, draft: Sequence[int]) -> Scored:
    """Raises ScoresError."""
    found = parsed(_Answer, answer)
    logprobs = _matrix(found.prompt_token_id_logprobs) if draft else np.empty((0, 1))
    require(logprobs.shape == (len(draft), 1), "too few scores, or too many")
    require(bool((logprobs <= 0).all()), "scores that are not log-probabilities")
    choices = found.choices
    require(len(choices) == 1 and len(choices[0].token_ids) == 1, "no token after the draft")
    contents = choices[0].logprobs.content if choices[0].logprobs is not None else ()
    require(len(contents) == 1, "a log-probability is missing")
    said = ServerToken(choices[0].token_ids[0], contents[0].logprob, TopN(()))
    return Scored(tuple(logprobs[:, 0].tolist()), (), said)


def _matrix(encoded: str | None) -> np.ndarray:
    require(encoded is not None, "no scores")
    assert encoded is not None
    try:
        array = np.load(io.BytesIO(base64.b64decode(encoded, validate=True)), allow_pickle=False)
    except (ValueError, EOFError, OSError, binascii.Error):
        raise ScoresError("scores that cannot be read") from None
    require(
        isinstance(array, np.ndarray) and array.dtype.kind == "f", "scores that are not numbers"
    )
    result: np.ndarray = array
    return result
