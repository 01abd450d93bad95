"""Value by value what llama.cpp's samplers make of SmolLM2's real logits."""

from typing import Any

import numpy as np
import pytest

from specengine.sampling import SamplingParams, Transforms
from support.llama_samplers import llama_distribution
from support.smollm import SmolLM

OFF: dict[str, Any] = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        OFF,
        OFF | {"temperature": 0.3},
        OFF | {"temperature": 1.7},
        OFF | {"top_k": 1},
        OFF | {"top_k": 40},
        OFF | {"top_k": 1000},
        OFF | {"top_p": 0.0},
        OFF | {"top_p": 0.5},
        OFF | {"top_p": 0.95},
        OFF | {"top_p": 0.999},
        OFF | {"min_p": 0.05},
        OFF | {"min_p": 0.5},
        OFF | {"min_p": 1.0},
        OFF | {"typical_p": 0.2, "top_k": 500},
        OFF | {"typical_p": 0.9, "top_k": 500},
        {"typical_p": 0.6},
        OFF | {"repeat_penalty": 1.3},
        OFF | {"repeat_penalty": 0.8},
        OFF | {"frequency_penalty": 0.7},
        OFF | {"presence_penalty": 1.5},
        OFF | {"presence_penalty": -1.5, "repeat_last_n": 5},
        OFF | {"repeat_penalty": 1.3, "repeat_last_n": 0},
        {"repeat_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.3},
        OFF | {"logit_bias": {0: 5.0, 260: -3.5, 2000: 12.0}},
        {"logit_bias": {260: float("-inf"), 28: 8.0}, "repeat_penalty": 1.2, "top_k": 10},
        {"temperature": 0, "repeat_penalty": 1.5},
        {"temperature": 0, "typical_p": 0.3},
    ],
    ids=str,
)
def test_every_transform_gives_what_llama_cpp_gives(
    settings: dict[str, Any], smollm: SmolLM
) -> None:
    params = SamplingParams(**settings)
    transforms = Transforms(params)
    for i, row in enumerate(smollm.rows):
        history = smollm.tokens[: len(smollm.tokens) - len(smollm.rows) + i + 1]
        ours = transforms.distribution(row, history)
        theirs = llama_distribution(row, history, params)
        # float32 sums over a whole vocabulary are off by some 1e-4: a nucleus may end a little
        # earlier or later, by one token where few are kept. What llama.cpp loses altogether is
        # about 1e-30.
        differing = np.setxor1d(ours.ids[ours.probs > 1e-30], theirs.ids[theirs.probs > 1e-30])
        mass = ours.probs_of(differing).sum() + theirs.probs_of(differing).sum()
        is_last = len(differing) == 1 and mass <= 1.001 * min(ours.probs.min(), theirs.probs.min())
        truncates = params.top_p < 1 or params.min_p > 0
        assert mass <= (1e-3 if truncates and params.top_k == 0 else 1e-29) or (
            truncates and is_last
        )
        np.testing.assert_allclose(
            ours.probs_of(theirs.ids), theirs.probs, rtol=3e-4, atol=mass + 1e-30
        )
        assert ours.probs.sum() == pytest.approx(1, abs=1e-12)
