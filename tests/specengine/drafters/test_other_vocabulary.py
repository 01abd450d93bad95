"""Draft models of another vocabulary: as tokens that both have, and as text."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from specengine.cache.context import Context
from specengine.control.controller import FixedDraftLength
from specengine.core.drafter import Drafter
from specengine.core.events import Finished
from specengine.drafters.bridge import TokenIntersection
from specengine.drafters.model import ModelDrafter
from specengine.drafters.text import TextDrafter
from specengine.drafters.translation import SharedTokens, Translation
from specengine.loop.generate import generate
from specengine.loop.target import LocalTarget
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from support.fakes import FakeKVCache, Model, greedy_continuation, markov
from support.piece_vocab import PieceVocab

TARGET = PieceVocab([b"a", b"b", b"c", b"ab", b"bc", b"abc"], ["<end>"], eos="<end>")
DRAFT = PieceVocab([b"c", b"ba", b"b", b"a", b"ca", b"bc"], ["</s>"], eos="</s>")
END = TARGET.control["<end>"]
PROMPT = [0, 1, 2, 3]
GREEDY = SamplingParams(temperature=0)
WAYS = pytest.mark.parametrize("way", ["tokens", "text"])


def drafter(way: str, model: Model, sampling: SamplingParams, *, n_ctx: int = 256) -> Drafter:
    cache = FakeKVCache(model, DRAFT.size, n_ctx=n_ctx)
    shared = SharedTokens(TARGET, DRAFT)
    if way == "text":
        translation = Translation(TARGET, DRAFT, shared)
        return TextDrafter("other", TARGET, DRAFT, Context(cache), translation)
    bridge = TokenIntersection(TARGET, DRAFT, shared)
    rule = make_rule(None, sampling)
    return ModelDrafter("other", bridge, Context(cache), Transforms(sampling), rule)


def answer(
    target: Model, drafts: Drafter, sampling: SamplingParams, k: int, max_tokens: int
) -> Finished:
    cache = FakeKVCache(target, TARGET.size)
    rule = make_rule(None, sampling)
    verifier = LocalTarget(TARGET, Context(cache), Transforms(sampling), rule)
    *_, finished = generate(verifier, [drafts], FixedDraftLength(k), PROMPT, max_tokens=max_tokens)
    assert isinstance(finished, Finished)
    assert finished.notices == ()
    return finished


def spelled(text: bytes, vocab: PieceVocab, *, after: int) -> Model:
    """Says `text` after a prefix of so many bytes, in the longest tokens; then ends."""

    def model(tokens: Sequence[int]) -> NDArray[np.float32]:
        logits = np.zeros(vocab.size, dtype=np.float32)
        said = len(vocab.text(tokens)) - after
        rest = vocab.tokenize(text[said:].decode())
        logits[rest[0] if rest else vocab.eos] = 9.0
        return logits

    return model


@WAYS
@pytest.mark.parametrize("seed", range(8))
def test_greedy_text_is_the_targets_own(way: str, seed: int) -> None:
    target, draft = markov(TARGET.size, seed), markov(DRAFT.size, seed + 100)
    expected = greedy_continuation(target, PROMPT, 60)
    if END in expected:
        expected = expected[: expected.index(END)]
    finished = answer(target, drafter(way, draft, GREEDY), GREEDY, 4, 60)
    assert list(finished.tokens) == expected
    assert finished.stats.drafted > 0 or len(expected) < 2


def test_text_that_the_draft_model_would_write_alike_is_accepted_whole() -> None:
    text = b"abcbcaabcabbcbbcaabc"
    after = len(TARGET.text(PROMPT))
    drafts = drafter("text", spelled(text, DRAFT, after=after), GREEDY)
    finished = answer(spelled(text, TARGET, after=after), drafts, GREEDY, 3, 50)
    assert finished.text == text.decode()
    assert finished.reason == "stop"  # the draft model's end is the target's
    assert finished.stats.acceptance_rate is not None
    assert finished.stats.acceptance_rate > 0.8
    assert finished.stats.corrected <= 3


def test_what_a_token_costs_as_text_follows_the_steps_that_it_really_took() -> None:
    says_c = np.zeros(DRAFT.size, dtype=np.float32)
    says_c[0] = 9.0  # a token of both: one step for each token of the target
    drafts = drafter("text", lambda tokens: says_c, GREEDY)
    assert isinstance(drafts, TextDrafter)
    prefix = np.array(PROMPT, dtype=np.int32)
    drafts.propose(prefix, 1)
    at_first = drafts.token_s
    for _ in range(100):
        assert drafts.propose(prefix, 8).tokens == [2] * 8
    step_s = drafts.context.costs.seconds(1)
    assert drafts.token_s < at_first
    assert drafts.token_s == pytest.approx(step_s, rel=0.02)


def test_as_tokens_only_what_both_have_is_drafted() -> None:
    favourite = np.zeros(DRAFT.size, dtype=np.float32)
    favourite[1] = 9.0  # "ba", which the target lacks
    favourite[5] = 5.0  # "bc"
    sampling = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, seed=1)
    drafts = drafter("tokens", lambda tokens: favourite, sampling)
    prefix = np.array(PROMPT, dtype=np.int32)
    assert drafts.offer(prefix) is not None
    proposal = drafts.propose(prefix, 3)
    shared = [0, 1, 2, 4, END]  # a, b, c, bc in the target's ids
    assert set(proposal.tokens) <= set(shared)
    q = proposal.q[0]
    assert q is not None
    expected = np.exp([0, 0, 0, 5, 0]) / (4 + np.exp(5))
    assert q.probs_of(np.array(shared, dtype=np.int32)) == pytest.approx(expected)
    assert q.probs.sum() == pytest.approx(1)


@WAYS
@pytest.mark.parametrize("rule", ["token", "block", "coupled"])
def test_sampled_text_is_distributed_as_the_targets(way: str, rule: str) -> None:
    # The joint distribution of the first two tokens, over runs with different seeds.
    target, draft = markov(TARGET.size, 4, sharpness=1.0), markov(DRAFT.size, 5, sharpness=1.0)
    plain = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    n_runs = 1500
    counts: Counter[tuple[int, ...]] = Counter()
    accepted = 0
    for seed in range(n_runs):
        sampling = SamplingParams.checked(**plain, seed=seed)
        acceptance = make_rule(rule, sampling)
        drafts = drafter(way, draft, sampling)
        if isinstance(drafts, ModelDrafter):
            drafts._rule = acceptance
        cache = FakeKVCache(target, TARGET.size)
        verifier = LocalTarget(TARGET, Context(cache), Transforms(sampling), acceptance)
        *_, finished = generate(verifier, [drafts], FixedDraftLength(2), PROMPT, max_tokens=3)
        assert isinstance(finished, Finished)
        counts[finished.tokens[:3]] += 1
        accepted += finished.stats.accepted
    expected = joint(target, 3)
    rare = {text for text, p in expected.items() if p * n_runs < 5}
    observed = [counts[text] for text in expected if text not in rare]
    wanted = [p * n_runs for text, p in expected.items() if text not in rare]
    if rare:
        observed.append(sum(counts[text] for text in rare))
        wanted.append(sum(expected[text] for text in rare) * n_runs)
    assert sum(counts.values()) == sum(observed)
    assert stats.chisquare(observed, wanted).pvalue > 0.001
    assert accepted > 100


def joint(model: Model, length: int) -> dict[tuple[int, ...], float]:
    """Probabilities of all answers of up to `length` tokens."""
    texts: dict[tuple[int, ...], float] = {(): 1.0}
    finished: dict[tuple[int, ...], float] = {}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for text, mass in texts.items():
            logits = model([*PROMPT, *text]).astype(np.float64)
            p = np.exp(logits - logits.max())
            p /= p.sum()
            for token, chance in enumerate(p):
                if token == END:
                    finished[text] = finished.get(text, 0.0) + mass * float(chance)
                else:
                    longer[(*text, token)] = mass * float(chance)
        texts = longer
    return finished | texts


@WAYS
def test_a_draft_context_that_is_too_small_ends_the_drafts_only(way: str) -> None:
    target = markov(TARGET.size, 9)
    drafts = drafter(way, markov(DRAFT.size, 1), GREEDY, n_ctx=24)
    cache = FakeKVCache(target, TARGET.size)
    verifier = LocalTarget(TARGET, Context(cache), Transforms(GREEDY), make_rule(None, GREEDY))
    *_, finished = generate(verifier, [drafts], FixedDraftLength(4), PROMPT, max_tokens=60)
    assert isinstance(finished, Finished)
    assert list(finished.tokens) == greedy_continuation(target, PROMPT, len(finished.tokens))
    assert "(24 tokens)" in finished.notices[0]
