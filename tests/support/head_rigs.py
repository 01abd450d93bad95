"""Heads as drafters beside a random target of five tokens, and texts and chances of that target."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specengine.cache.context import Context
from specengine.core.distribution import Distribution
from specengine.core.drafter import Drafter, Offer
from specengine.core.tokens import Tokens
from specengine.drafters.block import BlockDrafter
from specengine.drafters.head import HeadDrafter
from specengine.loop.target import LocalTarget
from specengine.sampling import SamplingParams, Transforms
from support.fake_block_head import FakeBlockHead, blocks_beside
from support.fake_head import FakeHead, head_beside
from support.fakes import markov
from support.rig import GREEDY, Rig

V = 5
MODEL = markov(V, seed=1, sharpness=1)
PROMPT = [0, 1, 2, 3, 0, 2]
SAMPLING = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)

_LONG = [(3 * i + i * i) % V for i in range(20)]
TEXTS = (_LONG, [*_LONG[:9], *_LONG[3:14]])
"""Two of 20 tokens, which part after the ninth."""


def head_rig(sampling: SamplingParams = GREEDY, rule: str | None = None, **head: int) -> Rig:
    """With a head that goes on token by token; `head` are the settings of a `FakeHead`."""
    made = Rig(MODEL, n_vocab=V, sampling=sampling, rule=rule)
    context, head_context = head_beside(made.target_cache, FakeHead(V, **head))
    return _drafting(made, sampling, context, partial(HeadDrafter, "head", head_context))


def block_rig(sampling: SamplingParams = GREEDY, rule: str | None = None, **head: Any) -> Rig:
    """With a head that drafts whole blocks; `head` are the settings of a `FakeBlockHead`."""
    made = Rig(MODEL, n_vocab=V, sampling=sampling, rule=rule)
    context, blocks = blocks_beside(made.target_cache, FakeBlockHead(V, **head))
    return _drafting(made, sampling, context, partial(BlockDrafter, "head", blocks))


def _drafting(
    made: Rig, sampling: SamplingParams, context: Context, drafter: Callable[..., Drafter]
) -> Rig:
    """`context` is the target's, which records what the head of `drafter` reads."""
    made.target = LocalTarget(made.vocab, context, Transforms(sampling), made.rule)
    made.drafter = drafter(frozenset(made.vocab.eog), Transforms(sampling), made.rule)
    return made


def tokens(text: list[int]) -> Tokens:
    return np.array(text, dtype=np.int32)


def offered(made: Rig, text: list[int]) -> Offer | None:
    assert made.drafter is not None
    return made.drafter.offer(tokens(text))


def law_of_pairs() -> Distribution:
    """Of the second and third token that the target says after PROMPT: a, b is the id 5 * a + b."""
    probs = np.zeros(V * V)
    for first, a, b in product(range(V), repeat=3):
        text = [*PROMPT, first, a, b]
        chances = [_chance(text[:i], text[i]) for i in range(len(PROMPT), len(text))]
        probs[V * a + b] += np.prod(chances)
    return Distribution(np.arange(V * V, dtype=np.int32), probs)


def _chance(text: list[int], token: int) -> float:
    """That the target says `token` after `text`."""
    weights = np.exp(MODEL(text).astype(np.float64))
    return float(weights[token] / weights.sum())


def histories(
    *, shortest: int, drafts: tuple[int, int]
) -> st.SearchStrategy[list[tuple[list[int], int, int, int]]]:
    """What is asked in turn: one of TEXTS, how much of it (from `shortest` tokens on), how many
    draft tokens (between the two numbers of `drafts`), and whether the pass breaks.
    """
    asked = st.tuples(
        st.sampled_from(TEXTS),
        st.integers(shortest, 20),
        st.integers(*drafts),
        st.sampled_from([0, 0, 1]),
    )
    return st.lists(asked, min_size=2, max_size=8)
