"""Checks, on the person's own models and machine, that drafting leaves the target's words alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specengine.checks.near_ties import NEAR_TIE, NearTies, teacher_force
from specengine.checks.sampling_check import check_rule, evaluate
from specengine.control.controller import FixedDraftLength
from specengine.core.errors import BackendError, CancelledError
from specengine.core.events import Chunk, Finished
from specengine.drafters.bridge import SameIds
from specengine.drafters.model import ModelDrafter
from specengine.load.drafting import DraftMethod
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.loop.generate import generate
from specengine.loop.target import LocalTarget
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms

FALSE_ALARM = 0.001
"""How often the sampling check fails although nothing is wrong."""

_GREEDY = SamplingParams(temperature=0)
_SEEDED = SamplingParams(temperature=1, seed=7)
_FEW_TOKENS = {"temperature": 1, "top_k": 6, "top_p": 1, "min_p": 0}
_SAMPLING_RULES = ("token", "block", "coupled")
_SELF_DRAFT_LENGTH = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What to check, and how thoroughly."""

    prompts: tuple[tuple[int, ...], ...]
    """Token ids of the prompts to answer."""
    seed: int
    """Seed of the sampling check; another one makes other draws."""
    max_tokens: int = 48
    draft_lengths: tuple[int, ...] = (1, 4, 8)
    draws: int = 4000
    """How many texts are drawn at each position with each rule."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the certificate."""

    name: str
    passed: bool
    detail: str
    figures: dict[str, Any] = field(default_factory=dict)


def verify(
    pair: Pair, plan: Plan, on_progress: Callable[[str, int, int], None] = lambda *_: None
) -> Iterator[Check]:
    """Run every check, each reported as soon as it is done.

    `on_progress(check, done, total)`. Set `pair.abort` to end it: then CancelledError is raised.
    """
    run = _Verification(pair, plan, on_progress)
    yield run.padding()
    yield run.reproducible()
    yield run.near_ties()
    yield run.sampling()
    yield run.self_draft()


class _Verification:
    def __init__(
        self, pair: Pair, plan: Plan, on_progress: Callable[[str, int, int], None]
    ) -> None:
        self._pair = pair
        self._plan = plan
        self._on_progress = on_progress
        self._methods: tuple[DraftMethod, ...] = ("lookup",)
        if pair.has_draft_model:
            self._methods = ("lookup", "model")

    def padding(self) -> Check:
        self._on_progress("padding", 0, 0)
        step = self._pair.width_step
        detail = (
            "no padding makes rows independent of the rest of the pass: reproducible texts may "
            "differ at near-ties"
            if step is None
            else (
                f"passes padded to multiples of {step} tokens give a row the same bits whatever "
                "else is in the pass"
            )
        )
        return Check("padding", step is not None, detail, {"width_step": step})

    def reproducible(self) -> Check:
        """Tokens and log-probabilities, which tell every bit of a row, are those of the target
        alone.
        """
        plan = self._plan
        ways = [(method, k) for method in self._methods for k in plan.draft_lengths]
        runs = [(p, s) for s in (_GREEDY, _SEEDED) for p in plan.prompts]
        texts = tokens = drafted = 0
        different = []
        for prompt, sampling in runs:
            alone = self._answer(prompt, sampling, reproducible=True, drafting=False)
            for method, k in ways:
                self._on_progress("reproducible", texts, len(runs) * len(ways))
                answer = self._answer(
                    prompt, sampling, reproducible=True, drafter=method, draft_length=k
                )
                if (answer.tokens, answer.logprobs) != (alone.tokens, alone.logprobs):
                    different.append(f"{method}, drafts of {k}")
                texts, tokens = texts + 1, tokens + len(answer.tokens)
                drafted += answer.stats.drafted
        detail = (
            f"{len(different)} of {texts} texts differ from the target's own: {different[0]}"
            if different
            else (
                f"{texts} texts of {tokens} tokens, greedy and seeded, with {drafted} tokens "
                "drafted: all identical, bit for bit, to those of the target alone"
            )
        )
        figures = {"texts": texts, "tokens": tokens, "drafted": drafted, "different": different}
        return Check("reproducible", not different, detail, figures)

    def near_ties(self) -> Check:
        """Greedy texts as they are made by default: each token against a one-token pass."""
        prompts = self._plan.prompts
        k = max(self._plan.draft_lengths)
        found: list[NearTies] = []
        same = drafted = 0
        for prompt in prompts:
            alone = self._answer(prompt, _GREEDY, drafting=False)
            for method in self._methods:
                self._on_progress("near-ties", len(found), len(prompts) * len(self._methods))
                answer = self._answer(prompt, _GREEDY, drafter=method, draft_length=k)
                same += answer.tokens == alone.tokens
                drafted += answer.stats.drafted
                found.append(teacher_force(self._pair.context, prompt, answer.tokens))
        n = sum(ties.n_tokens for ties in found)
        others = sum(len(ties.others) for ties in found)
        widest = max(ties.widest_gap for ties in found)
        detail = (
            f"{n - others} of {n} greedy tokens are the most probable of a one-token pass, the "
            f"other {others} are at most {widest:.2g} nats below it (bound {NEAR_TIE}); "
            f"{drafted} tokens were drafted, {same} of {len(found)} texts equal the target's own"
        )
        figures = {
            "tokens": n,
            "drafted": drafted,
            "not_maximum": others,
            "widest_gap": widest,
            "bound": NEAR_TIE,
            "texts": len(found),
            "texts_equal": same,
        }
        return Check("near-ties", all(ties.are_all for ties in found), detail, figures)

    def sampling(self) -> Check:
        plan, pair = self._plan, self._pair
        n_tests = len(plan.prompts) * len(_SAMPLING_RULES)
        limit = FALSE_ALARM / n_tests
        p_values: dict[str, list[float]] = {name: [] for name in _SAMPLING_RULES}
        done = 0
        for i, prompt in enumerate(plan.prompts):
            params = SamplingParams.checked(**_FEW_TOKENS, seed=plan.seed + i)
            prefix = [*prompt, *self._uncertain_beginning(prompt)]
            drafter = pair.draft_model(params, make_rule("token", params))
            self._on_progress("sampling", done, n_tests)
            branches = evaluate(pair.context, Transforms(params), drafter, prefix)
            for name in _SAMPLING_RULES:
                self._on_progress("sampling", done, n_tests)
                result = check_rule(make_rule(name, params), branches, plan.draws)
                p_values[name].append(result.p_value)
                done += 1
        lowest = min(p for values in p_values.values() for p in values)
        detail = (
            f"{plan.draws} texts of two tokens at each of {len(plan.prompts)} positions with "
            f"each of {', '.join(_SAMPLING_RULES)}: chi-square p-values from {lowest:.2g} up "
            f"(limit {limit:.2g}, which a correct build falls below once in "
            f"{1 / FALSE_ALARM:.0f} runs)"
        )
        figures = {"p_values": p_values, "limit": limit, "draws": plan.draws, "seed": plan.seed}
        return Check("sampling", lowest > limit, detail, figures)

    def self_draft(self) -> Check:
        """The target as its own draft model, over the same cache: every draft token stands."""
        pair, prompt = self._pair, self._plan.prompts[0]
        self._on_progress("self-draft", 0, 1)
        alone = self._answer(prompt, _GREEDY, reproducible=True, drafting=False)
        rule = make_rule("greedy", _GREEDY)
        transforms = Transforms(_GREEDY)
        itself = ModelDrafter(
            "self", SameIds(pair.vocab, pair.vocab.size), pair.context, transforms, rule
        )
        answer = _finished(
            generate(
                LocalTarget(pair.vocab, pair.context, transforms, rule),
                [itself],
                FixedDraftLength(_SELF_DRAFT_LENGTH),
                prompt,
                max_tokens=self._plan.max_tokens,
                abort=pair.abort,
            )
        )
        stats = answer.stats
        detail = (
            f"{stats.accepted} of {stats.drafted} tokens that the target drafted for itself were "
            "accepted"
        )
        figures = {"accepted": stats.accepted, "drafted": stats.drafted}
        passed = 0 < stats.drafted == stats.accepted and answer.tokens == alone.tokens
        return Check("self-draft", passed, detail, figures)

    def _uncertain_beginning(self, prompt: Sequence[int]) -> list[int]:
        """The target's own answer up to where it is least sure: there a wrong law shows best."""
        answer = self._answer(prompt, _GREEDY, drafting=False)
        if not answer.logprobs:
            return []
        unsure = min(range(len(answer.logprobs)), key=lambda i: answer.logprobs[i].logprob)
        return list(answer.tokens[:unsure])

    def _answer(self, prompt: Sequence[int], sampling: SamplingParams, **options: Any) -> Finished:
        tokens = self._plan.max_tokens
        return _finished(
            self._pair.answer(
                prompt, AnswerRequest(sampling, max_tokens=tokens, logprobs=0, **options)
            )
        )


def _finished(events: Iterator[Chunk | Finished]) -> Finished:
    *_, finished = events
    assert isinstance(finished, Finished)
    if finished.reason == "cancelled":
        raise CancelledError("cancelled")
    if finished.error is not None:
        raise BackendError(finished.error)
    return finished
