"""What the controller brings and costs, against the target alone: scripted costs and texts.

The clock is the sum of scripted costs. A text is scripted as well: how often each kind of draft is
offered in it, and how often its draft tokens stand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from specengine.cache.costs import PassCosts
from specengine.control.controller import AdaptiveDraftLength
from specengine.control.hindsight import GUESSED
from specengine.core.drafter import Offer

# Seconds of a pass by its width, measured: Qwen2.5-Coder 1.5B with AMX, without, and with our own
# kernels; SmolLM2 135M.
AMX = {1: 0.087, 2: 0.122, 3: 0.135, 5: 0.144, 9: 0.190, 17: 0.250}
NO_AMX = {1: 0.093, 2: 0.145, 3: 0.204, 4: 0.179, 5: 0.213, 8: 0.362, 12: 0.374, 16: 0.489}
FLAT = {1: 0.0377, 2: 0.039, 4: 0.0411, 8: 0.0509, 12: 0.071, 16: 0.097}
SMALL = {1: 0.012, 2: 0.021, 3: 0.025, 5: 0.028, 9: 0.037, 17: 0.060}
STEEP = {"amx": AMX, "no amx": NO_AMX, "small": SMALL}
COSTS = {**STEEP, "flat": FLAT}

# Lookup's kinds and their priors.
PRIORS = {"copy": 0.75, "phrase": 0.5, "word": 0.3, "split": 0.13}
KINDS = [
    Offer(f"{source}-{kind}", 16, scale * prior, family="lookup")
    for source, scale in (("lookup", 1.0), ("earlier", 0.8))
    for kind, prior in PRIORS.items()
]


@dataclass(frozen=True)
class Text:
    """Chances that a kind is what is offered (nothing, for the rest), and that its draft tokens
    stand: the first, and each of those after it.
    """

    offered: Mapping[str, float]
    stands: Mapping[str, tuple[float, float]]


def repeated(rate: float, offered: Mapping[str, float]) -> Text:
    return Text(offered, dict.fromkeys(offered, (rate, rate)))


EVERYWHERE = {"copy": 0.1, "phrase": 0.2, "word": 0.2, "split": 0.3}
NEW = repeated(0.0, EVERYWHERE)
"""Nothing stands, whatever is found."""
# Measured on bench/prompts.jsonl, answers of `laptop`.
PROSE = Text(
    {"copy": 0.11, "phrase": 0.15, "word": 0.12, "split": 0.3},
    {"copy": (0.67, 0.67), "phrase": (0.5, 0.58), "word": (0.28, 0.5), "split": (0.12, 0.3)},
)
EDIT = Text(
    {"copy": 0.79, "phrase": 0.08, "word": 0.06, "split": 0.05},
    {"copy": (0.97, 0.97), "phrase": (0.75, 0.85), "word": (0.57, 0.6), "split": (0.1, 0.25)},
)


@dataclass
class Run:
    controller: AdaptiveDraftLength
    costs: PassCosts
    rng: np.random.Generator
    seconds: float = 0.0
    tokens: int = 0
    drafts: list[tuple[int, int]] = field(default_factory=list)
    """Draft length and accepted tokens of each round."""

    def play(self, text: Text, tokens: int) -> float:
        """Go on with `tokens` tokens of `text`: their speed over that of the target alone."""
        start_s, start, end = self.seconds, self.tokens, self.tokens + tokens
        while self.tokens < end:
            self._round(text, end)
        alone = (self.tokens - start) * self.costs.seconds(1)
        return alone / (self.seconds - start_s)

    def _round(self, text: Text, end: int) -> None:
        offer = self._offer(text)
        k = self.controller.choose([offer], end - self.tokens - 1).length
        accepted = 0
        if offer is not None and k:
            accepted = self._stand(text, offer, k)
            self.controller.observe(offer, k, accepted)
        elif offer is not None:  # what `Hindsight` would say, a little later
            self.controller.learn(offer, GUESSED, self._stand(text, offer, GUESSED))
        self.seconds += self.costs.seconds(k + 1)
        self.tokens += accepted + 1
        self.drafts.append((k, accepted))

    def _stand(self, text: Text, offer: Offer, k: int) -> int:
        first, later = text.stands[offer.kind.split("-")[1]]
        accepted = 0
        while accepted < k and self.rng.random() < (later if accepted else first):
            accepted += 1
        return accepted

    def _offer(self, text: Text) -> Offer | None:
        u = self.rng.random()
        for kind, share in text.offered.items():
            if u < share:
                source = "lookup" if self.rng.random() < 0.7 else "earlier"
                return next(o for o in KINDS if o.kind == f"{source}-{kind}")
            u -= share
        return None


def run(costs: Mapping[int, float], seed: int) -> Run:
    passes = PassCosts(costs)
    controller = AdaptiveDraftLength(passes.seconds, longest=16)
    return Run(controller, passes, np.random.default_rng(seed))


def ratios(costs: str, text: Text, tokens: int, runs: int = 20) -> Sequence[float]:
    return [run(COSTS[costs], seed).play(text, tokens) for seed in range(runs)]


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize(("tokens", "least"), [(80, 0.967), (200, 0.975)])
def test_where_nothing_stands_it_is_hardly_slower_than_the_target_alone(
    costs: str, tokens: int, least: float
) -> None:
    found = ratios(costs, NEW, tokens)
    assert np.mean(found) > 0.97
    assert min(found) > least


@pytest.mark.parametrize("costs", COSTS)
def test_prose_loses_nothing(costs: str) -> None:
    found = ratios(costs, PROSE, 200)
    assert np.median(found) > 1.0
    assert min(found) > 0.975


@pytest.mark.parametrize(
    ("costs", "gain"), [("amx", 3.5), ("no amx", 2.0), ("flat", 3.5), ("small", 2.0)]
)
def test_edits_gain_much(costs: str, gain: float) -> None:
    found = ratios(costs, EDIT, 200)
    assert np.median(found) > gain
    assert min(found) > 1.4


@pytest.mark.parametrize("costs", COSTS)
def test_what_was_gained_in_one_answer_is_not_lost_in_the_next(costs: str) -> None:
    for seed in range(20):
        chat = run(COSTS[costs], seed)
        assert chat.play(EDIT, 200) > 1.0
        chat.controller.begin()
        assert chat.play(NEW, 200) > 0.97


@pytest.mark.parametrize("costs", COSTS)
def test_it_drafts_again_within_tens_of_tokens_once_the_text_repeats_itself(costs: str) -> None:
    """The worst of prose comes first; then how long until drafts pay as they should."""
    delays, gains = [], []
    for seed in range(20):
        answer = run(COSTS[costs], seed)
        answer.play(NEW, 150)
        silent = len(answer.drafts)
        answer.play(EDIT, 60)
        rounds = answer.drafts[silent:]
        stood = [i for i, (_, accepted) in enumerate(rounds) if accepted >= 2]
        delays.append(stood[0] if stood else 60)
        gains.append(answer.play(EDIT, 140))
    assert np.median(delays) < 10
    assert max(delays) <= 60
    assert np.median(gains) > 2.0
    assert min(gains) > 1.5


@pytest.mark.parametrize("costs", COSTS)
def test_it_stops_within_tens_of_tokens_once_nothing_stands_any_more(costs: str) -> None:
    for seed in range(20):
        answer = run(COSTS[costs], seed)
        answer.play(EDIT, 200)
        for tokens, passes in ((40, 8), (200, 12)):  # that are lost in all
            before = answer.seconds
            answer.play(NEW, tokens)
            lost = (answer.seconds - before) / answer.costs.seconds(1) - tokens
            assert lost < passes


def test_what_fails_for_one_kind_lowers_the_hopes_of_its_siblings() -> None:
    answer = run(AMX, 0)
    copy, phrase = KINDS[0], KINDS[1]
    assert answer.controller.choose([phrase], 16).length > 0
    answer.controller.observe(copy, 1, 0)
    assert answer.controller.choose([phrase], 16).length == 0
    stranger = Offer("m", 16, 0.5)
    assert answer.controller.choose([stranger], 16).length > 0


def with_model(
    controller: AdaptiveDraftLength, passes: PassCosts, model: Offer, tokens: int, rate: float = 0
) -> float:
    """The speed of an answer over that of the target alone. The text is read once for `model`."""
    rng = np.random.default_rng(1)
    controller.begin()
    seconds, n = 0.0, 0
    while n < tokens:
        k = controller.choose([model], min(16, tokens - n - 1)).length
        accepted = 0
        while accepted < k and rng.random() < rate:
            accepted += 1
        if k:
            controller.observe(model, k, accepted)
            seconds += model.start_s + model.seconds(k)
            model = replace(model, start_s=0.0)
        seconds += passes.seconds(k + 1)
        n += accepted + 1
    return n * passes.seconds(1) / seconds


@pytest.mark.parametrize("costs", STEEP)
@pytest.mark.parametrize("token", [0.05, 0.1, 0.3, 0.45])
@pytest.mark.parametrize("start", [0, 3, 8, 13, 30])
def test_a_draft_model_that_never_pays_costs_little_once_and_less_from_then_on(
    costs: str, token: float, start: float
) -> None:
    """`token` and `start`: a draft token, and reading the text, in passes of the target."""
    passes = PassCosts(COSTS[costs])
    alone = passes.seconds(1)
    model = Offer("m", 1000, 0.7, start_s=start * alone, token_s=token * alone)
    for tokens, first, unread, later in (
        (40, 0.915, 0.78, 0.95),
        (80, 0.945, 0.875, 0.94),
        (200, 0.965, 0.945, 0.97),
    ):
        controller = AdaptiveDraftLength(passes.seconds, longest=16)
        found = [with_model(controller, passes, model, tokens) for _ in range(4)]
        assert found[0] > (unread if start else first)
        assert min(found[1:]) > later


@pytest.mark.parametrize("costs", STEEP)
def test_a_text_is_read_for_a_draft_model_if_that_may_pay(costs: str) -> None:
    """At once up to 8 passes, twice as much after an answer in which it paid."""
    passes = PassCosts(COSTS[costs])
    alone = passes.seconds(1)
    short, long, longer = (
        Offer("m", 1000, 0.9, start_s=start * alone, token_s=0.05 * alone) for start in (6, 12, 60)
    )
    controller = AdaptiveDraftLength(passes.seconds, longest=16)
    assert with_model(controller, passes, long, 60, rate=0.9) == pytest.approx(1)
    assert with_model(controller, passes, short, 200, rate=0.9) > 1.3
    assert with_model(controller, passes, long, 200, rate=0.9) > 1.3
    assert with_model(controller, passes, longer, 200, rate=0.9) == pytest.approx(1)


@pytest.mark.parametrize("costs", STEEP)
@pytest.mark.parametrize("token", [0.05, 0.1, 0.3, 0.4, 0.5])
@pytest.mark.parametrize("start", [0.0, 7.0])
def test_a_draft_model_that_fails_does_not_cost_lookup_its_turn(
    costs: str, token: float, start: float
) -> None:
    passes = PassCosts(COSTS[costs])
    alone = passes.seconds(1)
    controller = AdaptiveDraftLength(passes.seconds, longest=16)
    model = Offer("m", 100, 0.7, start_s=start * alone, token_s=token * alone)
    for _ in range(20):
        choice = controller.choose([model], 16)
        if choice.length:
            controller.observe(model, choice.length, 0)
            model = replace(model, start_s=0.0)
    assert controller.choose([model], 16).length == 0
    assert controller.choose([model, KINDS[0]], 16).drafter == 1


@pytest.mark.parametrize("costs", STEEP)
def test_what_lookup_gains_is_not_spent_on_trials_of_a_draft_model(costs: str) -> None:
    passes = PassCosts(COSTS[costs])
    controller = AdaptiveDraftLength(passes.seconds, longest=16)
    model = Offer("m", 100, 0.5, token_s=0.1 * passes.seconds(1))
    trials = 0
    for _ in range(100):
        controller.observe(KINDS[0], 8, 8)
        choice = controller.choose([None, model], 16)
        if choice.length:
            trials += 1
            controller.observe(model, choice.length, 0)
    assert 1 <= trials <= 8
