"""Whether sampled texts are distributed as those of the target alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from specengine.checks.chi_square import chi_square
from specengine.core.distribution import Distribution
from specengine.core.tokens import as_tokens
from specengine.sampling import SamplingParams, Transforms
from support.fakes import Model

Text = tuple[int, ...]


def law_of_texts(
    model: Model, prompt: Sequence[int], length: int, sampling: SamplingParams
) -> dict[Text, float]:
    """The chance of each text of `length` tokens that `model` says after `prompt`."""
    transforms = Transforms(sampling)
    law: dict[Text, float] = {(): 1.0}
    for _ in range(length):
        longer: dict[Text, float] = {}
        for text, mass in law.items():
            history = [*prompt, *text]
            p = transforms.distribution(model(history), as_tokens(history))
            for token, chance in zip(p.ids.tolist(), p.probs.tolist(), strict=True):
                longer[*text, token] = mass * chance
        law = longer
    return law


def p_value(counts: Counter[Text], law: dict[Text, float]) -> float:
    """Of the chi-square test of texts; 0 if one of them is impossible."""
    ids = {text: i for i, text in enumerate(law)}
    p = Distribution(np.arange(len(law), dtype=np.int32), np.array(list(law.values())))
    return chi_square({ids.get(text, len(law)): n for text, n in counts.items()}, p).p_value
