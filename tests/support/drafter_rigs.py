"""Every kind of drafter beside a random target, with texts of that target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specengine.cache.context import Context, Logits
from specengine.core.drafter import Drafter, Offer
from specengine.core.tokens import Tokens
from specengine.drafters.block import BlockDrafter
from specengine.drafters.bridge import SameIds, TokenIntersection
from specengine.drafters.head import HeadDrafter
from specengine.drafters.model import ModelDrafter
from specengine.drafters.parallel import ParallelDrafter
from specengine.drafters.text import TextDrafter
from specengine.drafters.translation import SharedTokens, Translation
from specengine.loop.target import LocalTarget
from specengine.sampling import SamplingParams, Transforms
from support.fake_block_head import FakeBlockHead, blocks_beside
from support.fake_head import FakeHead, head_beside
from support.fakes import FakeKVCache, FakeVocab, Model, markov
from support.piece_vocab import PieceVocab
from support.rig import GREEDY, Rig

V = 5
MODEL = markov(V, seed=1, sharpness=1)
DRAFT_MODEL = markov(V, seed=5, sharpness=1)
OTHER_MODEL = markov(7, seed=5, sharpness=1)
MASK = 4
TARGET_VOCAB = PieceVocab([b"a", b"b", b"c", b"ab", b"bc", b"abc"], ["<end>"], eos="<end>")
DRAFT_VOCAB = PieceVocab([b"c", b"ba", b"b", b"a", b"ca", b"bc"], ["</s>"], eos="</s>")
PROMPT = [0, 1, 2, 3, 0, 2]
SAMPLING = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)


def unending(tokens: Sequence[int]) -> Logits:
    """A random model over TARGET_VOCAB that goes on."""
    return np.append(markov(6, seed=4, sharpness=1)(tokens), np.float32(-99))


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


def parallel_rig(
    sampling: SamplingParams = GREEDY,
    rule: str | None = None,
    *,
    target: Model = MODEL,
    draft: Model = DRAFT_MODEL,
    **cache: int,
) -> Rig:
    """With a draft model that knows mask tokens; `cache` are the settings of its `FakeKVCache`."""
    made = Rig(target, n_vocab=V, sampling=sampling, rule=rule)
    made.draft_cache = FakeKVCache(draft, V, **cache)
    bridge, context = SameIds(FakeVocab(V), V), Context(made.draft_cache)
    transforms = Transforms(sampling)
    made.drafter = ParallelDrafter("pard", bridge, MASK, context, transforms, made.rule)
    return made


def other_rig(
    way: str,
    sampling: SamplingParams = GREEDY,
    rule: str | None = None,
    *,
    target: Model = unending,
    draft: Model = OTHER_MODEL,
    n_ctx: int = 256,
) -> Rig:
    """With a draft model of another vocabulary, which drafts shared `tokens` or `text`."""
    made = Rig(target, vocab=TARGET_VOCAB, sampling=sampling, rule=rule)
    context = Context(FakeKVCache(draft, DRAFT_VOCAB.size, n_ctx=n_ctx))
    vocabularies = TARGET_VOCAB, DRAFT_VOCAB
    shared = SharedTokens(*vocabularies)
    if way == "text":
        translation = Translation(*vocabularies, shared)
        made.drafter = TextDrafter("other", *vocabularies, context, translation)
    else:
        bridge = TokenIntersection(*vocabularies, shared)
        made.drafter = ModelDrafter("other", bridge, context, Transforms(sampling), made.rule)
    return made


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
