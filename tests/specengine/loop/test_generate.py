"""The loop on scripted models. Case numbers are those of docs/exactness.md."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.cache.costs import PassCosts
from specengine.control.controller import ALONE, AdaptiveDraftLength, Choice, FixedDraftLength
from specengine.core.draft import Draft
from specengine.core.drafter import Offer
from specengine.core.errors import CancelledError, ContextFullError
from specengine.core.events import Chunk, Finished
from specengine.core.statistics import DrafterCounts
from specengine.core.tokens import Tokens
from specengine.drafters.lookup import LookupDrafter
from specengine.drafters.model import ModelDrafter
from specengine.loop.generate import generate
from support.fakes import BrokenPassError, Model, greedy_continuation, markov, scripted
from support.rig import Rig

PROMPT = [1, 2, 3]
TARGET = markov(8, seed=7)


def wrong(tokens: Sequence[int]) -> NDArray[np.float32]:
    """Never proposes what the target says."""
    logits = np.zeros(8, dtype=np.float32)
    logits[(int(TARGET(tokens).argmax()) + 1) % 8] = 5.0
    return logits


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_case_1_drafting_for_oneself_is_always_accepted(k: int) -> None:
    rig = Rig(TARGET, draft=TARGET)
    answer = rig.run(PROMPT, k, max_tokens=64)
    assert list(answer.tokens) == greedy_continuation(TARGET, PROMPT, 64)
    assert answer.stats.acceptance_rate == 1.0
    assert answer.stats.corrected == 0
    # One token from the prompt pass, then k + 1 in each round that has room for them.
    assert answer.stats.target_passes == -(-63 // (k + 1))


def test_case_2_a_drafter_that_is_always_wrong_costs_only_time() -> None:
    rig = Rig(TARGET, draft=wrong)
    answer = rig.run(PROMPT, 5, max_tokens=30)
    assert list(answer.tokens) == greedy_continuation(TARGET, PROMPT, 30)
    assert answer.stats.accepted == 0
    assert answer.stats.target_passes == 29
    assert rig.caches_hold_what_they_say()


def test_an_accepted_draft_is_not_evaluated_again_by_the_draft_model() -> None:
    rig = Rig(TARGET, draft=TARGET)
    rig.run(PROMPT, 3, max_tokens=41)
    # Prompt and first token, then in each round the last draft token and the bonus token.
    assert max(rig.draft_cache.widths[1:]) == 2


@pytest.mark.parametrize("draft", [TARGET, wrong])
@pytest.mark.parametrize("end_after", range(1, 12))
def test_case_5_an_end_token_ends_the_text_wherever_it_falls(draft: Model, end_after: int) -> None:
    script = [2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 2, 3][:end_after] + [7]
    model = scripted(8, script, start=len(PROMPT))
    rig = Rig(model, draft=model if draft is TARGET else draft, eog=[7])
    answer = rig.run(PROMPT, 5)
    assert answer.reason == "stop"
    assert list(answer.tokens) == script[:-1]
    assert rig.caches_hold_what_they_say()


def test_case_5_the_next_turn_equals_a_fresh_run() -> None:
    reference = greedy_continuation(TARGET, PROMPT, 30)
    end = reference[11]
    rig = Rig(TARGET, draft=TARGET, eog=[end])
    first = rig.run(PROMPT, 5)
    assert list(first.tokens) == reference[: reference.index(end)]
    second = [*PROMPT, *first.tokens, end, 1, 1]
    fresh = Rig(TARGET, draft=TARGET, eog=[end]).run(second, 5, max_tokens=20)
    assert rig.run(second, 5, max_tokens=20).tokens == fresh.tokens


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
def test_case_6_a_stop_string_across_rounds_is_never_shown(k: int) -> None:
    model = scripted(8, [0, 1, 2, 3, 4, 5, 6], start=len(PROMPT))  # says abcdefggg…
    answer = Rig(model, draft=model).run(PROMPT, k, stop=["def"], max_tokens=20)
    assert (answer.text, answer.tokens, answer.reason) == ("abc", (0, 1, 2), "stop")
    assert answer.stats.completion_tokens == 3


def test_case_6_a_near_miss_is_shown_whole() -> None:
    model = scripted(8, [0, 1, 2, 3, 4], start=len(PROMPT))
    answer = Rig(model, draft=model).run(PROMPT, 2, stop=["cdx"], max_tokens=5)
    assert answer.text == "abcde"


@pytest.mark.parametrize("n", range(1, 11))
def test_case_7_max_tokens_is_exact(n: int) -> None:
    answer = Rig(TARGET, draft=TARGET).run(PROMPT, 5, max_tokens=n)
    assert len(answer.tokens) == n
    assert answer.reason == "length"


@pytest.mark.parametrize("n", [0, -1])
def test_case_7_an_answer_of_no_tokens_is_refused_at_once(n: int) -> None:
    rig = Rig(TARGET)
    with pytest.raises(ValueError, match="max_tokens"):
        rig.events(PROMPT, max_tokens=n)
    assert rig.target_cache.passes == 0


@pytest.mark.parametrize("n", range(1, 11))
def test_case_7_an_end_token_as_the_last_one_is_a_stop(n: int) -> None:
    script = [2] * (n - 1) + [7]
    model = scripted(8, script, start=len(PROMPT))
    answer = Rig(model, draft=model, eog=[7]).run(PROMPT, 5, max_tokens=n)
    assert answer.reason == "stop"
    assert list(answer.tokens) == script[:-1]


@pytest.mark.parametrize("k", [0, 1, 5])
def test_every_committed_token_is_counted_once(k: int) -> None:
    stats = Rig(TARGET, draft=markov(8, seed=8)).run(PROMPT, k, max_tokens=40).stats
    assert stats.accepted + stats.corrected + stats.bonus == stats.completion_tokens == 40
    assert stats.target_passes == stats.corrected + stats.bonus - 1
    assert sum(stats.accepted_per_position) == stats.accepted
    assert len(stats.accepted_per_position) == k


@pytest.mark.parametrize("stops_every", [1, 4])
def test_padding_a_pass_to_a_cheaper_width_leaves_the_text_alone(stops_every: int) -> None:
    rig = Rig(TARGET, draft=markov(8, seed=8), stops_every=stops_every)
    # Over four tokens a pass costs less than over one, two or three.
    rig.target.context.costs = PassCosts({1: 0.2, 2: 0.3, 3: 0.4, 4: 0.1, 5: 0.5})
    answer = rig.run(PROMPT, 2, max_tokens=30)
    assert list(answer.tokens) == greedy_continuation(TARGET, PROMPT, 30)
    # A cache that cannot drop what it likes is given nothing to drop.
    assert rig.target.context.cheapest_width(3) == (4 if stops_every == 1 else 3)
    assert (set(rig.target_cache.widths) == {4}) == (stops_every == 1)
    assert rig.caches_hold_what_they_say()


def test_without_drafts_there_is_one_pass_for_each_token() -> None:
    stats = Rig(TARGET).run(PROMPT, 5, max_tokens=20).stats
    assert (stats.drafted, stats.accepted, stats.acceptance_rate) == (0, 0, None)
    assert stats.target_passes == 19
    assert stats.tokens_per_pass == 1.0


@pytest.mark.parametrize("seed", range(200))
def test_case_13_cancel_or_exception_anywhere_leaves_valid_caches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draft = markov(8, seed=7, sharpness=2.5)
    rig = Rig(TARGET, draft=draft)
    countdown = int(rng.integers(1, 25))
    failure = [BrokenPassError("broken"), CancelledError("cancelled"), RuntimeError("odd")][
        seed % 3
    ]

    def tick() -> None:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            raise failure

    cache = rig.target_cache if seed % 2 else rig.draft_cache
    cache.before_decode = tick
    events = rig.events(PROMPT, int(rng.integers(1, 6)), max_tokens=40)
    abandon_after = int(rng.integers(1, 30))
    committed: list[int] = []
    try:
        for i, event in enumerate(events):
            if i == abandon_after:
                events.close()
                break
            if isinstance(event, Chunk):
                committed += event.tokens
    except RuntimeError:
        assert cache is rig.target_cache  # a fault that is not ours is not hidden
    expected = greedy_continuation(TARGET, PROMPT, 40)
    assert committed == expected[: len(committed)]
    assert rig.caches_hold_what_they_say()
    cache.before_decode = lambda: None
    assert list(rig.run(PROMPT, 3, max_tokens=25).tokens) == expected[:25]


def test_a_cancelled_answer_keeps_what_came() -> None:
    rig = Rig(TARGET, draft=TARGET)
    shown = ""
    tokens: list[int] = []
    for event in rig.events(PROMPT, 2):
        if len(tokens) < 10:
            shown += event.text
            tokens += event.tokens
        if len(tokens) >= 10:
            rig.abort.set()
    assert event.reason == "cancelled"
    assert event.text == shown
    assert list(event.tokens) == tokens


def test_an_error_of_the_target_ends_the_answer_and_keeps_what_came() -> None:
    rig = Rig(TARGET)

    def fail() -> None:
        if rig.target_cache.passes == 6:
            raise BrokenPassError("the sixth pass broke")

    rig.target_cache.before_decode = fail
    answer = rig.run(PROMPT)
    assert (answer.reason, answer.error) == ("error", "the sixth pass broke")
    assert list(answer.tokens) == greedy_continuation(TARGET, PROMPT, 5)


class _Broken:
    name = "broken"
    abort = None
    draft_s = 0.0
    notice = None

    def __init__(self, propose: Callable[[Tokens, int], Draft]) -> None:
        self._propose = propose

    def offer(self, prefix: Tokens) -> Offer:
        return Offer("broken", 100, prior=0.5)

    def propose(self, prefix: Tokens, k: int) -> Draft:
        return self._propose(prefix, k)


def _raise(prefix: Tokens, k: int) -> Draft:
    raise ZeroDivisionError("division by zero")


# With length 0 it is asked for guesses only, as drafters that cost nothing are.
@pytest.mark.parametrize("k", [0, 4])
def test_a_drafter_that_breaks_costs_its_drafts_only(k: int) -> None:
    rig = Rig(TARGET)
    rig.drafter = _Broken(_raise)
    answer = rig.run(PROMPT, k, max_tokens=12)
    assert list(answer.tokens) == greedy_continuation(TARGET, PROMPT, 12)
    assert answer.notices == (
        "the drafter broken failed (division by zero): continuing without it",
    )
    assert answer.stats.drafted == 0


def test_which_drafter_proposed_what_is_counted() -> None:
    rig = Rig(TARGET, draft=TARGET)
    answer = rig.run(PROMPT, 4, max_tokens=21)
    assert answer.stats.by_drafter == {"fake": DrafterCounts(4, 16, 16, asked=16)}


def test_drafts_that_came_to_nothing_are_counted_and_are_not_the_target_alone() -> None:
    rig = Rig(TARGET)
    rig.drafter = _Broken(lambda prefix, k: Draft())
    stats = rig.run(PROMPT, 2, max_tokens=12).stats
    assert stats.by_drafter == {"broken": DrafterCounts(10, empty=10, asked=9 * 2 + 1)}
    assert stats.plain_tokens_per_s == 1 / (rig.target.plain_pass_s or 0)
    assert stats.plain_tokens_per_s != stats.tokens_per_s
    alone = rig.run(PROMPT, 0, max_tokens=12).stats
    assert alone.by_drafter == {}
    assert alone.plain_tokens_per_s == alone.tokens_per_s


def test_trials_are_counted() -> None:
    class Tries(FixedDraftLength):
        def choose(self, offers: Sequence[Offer | None], room: int) -> Choice:
            return Choice(0, min(1, room), trial=room > 4)

    rig = Rig(TARGET, draft=TARGET)
    assert rig.drafter is not None
    *_, answer = generate(rig.target, [rig.drafter], Tries(1), PROMPT, max_tokens=9)
    assert isinstance(answer, Finished)
    # Each round commits two tokens: there is room for 7, 5, 3 and 1.
    assert answer.stats.by_drafter == {"fake": DrafterCounts(4, 4, 4, asked=4, trials=2)}


def test_case_14_an_answer_ends_where_the_context_does() -> None:
    rig = Rig(TARGET, draft=TARGET, n_ctx=64)
    answer = rig.run([i % 8 for i in range(56)], 16)
    assert answer.reason == "length"
    assert len(answer.tokens) == 8


def test_case_14_a_prompt_that_fills_the_context_is_refused() -> None:
    with pytest.raises(ContextFullError, match="64 tokens leaves no room"):
        Rig(TARGET, n_ctx=64).run([0] * 64)


def test_case_14_a_draft_context_that_is_too_small_ends_the_drafts_only() -> None:
    rig = Rig(TARGET, draft=TARGET, draft_n_ctx=32)
    answer = rig.run(PROMPT, 4, max_tokens=60)
    assert list(answer.tokens) == greedy_continuation(TARGET, PROMPT, 60)
    assert "(32 tokens)" in answer.notices[0]
    assert 0 < answer.stats.drafted < 60


def test_case_15_edit_regenerate_and_back_evaluate_only_the_tail() -> None:
    rig = Rig(TARGET, draft=TARGET)
    prompt = [i % 8 for i in range(50)]
    first = rig.run(prompt, 3, max_tokens=10)
    again = rig.run(prompt, 3, max_tokens=10)
    assert first.tokens == again.tokens
    edited = prompt[:45] + [7, 7]
    passes = rig.target_cache.passes
    rig.run(edited, 3, max_tokens=10)
    assert rig.target_cache.widths[passes] == 2
    assert rig.run(prompt, 3, max_tokens=10).tokens == first.tokens


def test_lookup_drafts_what_the_prompt_says() -> None:
    script = [3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1]
    prompt = [2, *script[:8]]
    model = scripted(8, script[4:], start=len(prompt))
    rig = Rig(model)
    rig.drafter = LookupDrafter()
    answer = rig.run(prompt, 4, max_tokens=9)
    assert list(answer.tokens) == script[4:]
    assert answer.stats.accepted > 0


def test_a_cascade_takes_from_each_drafter_what_it_knows() -> None:
    copied = [3, 4, 5, 6, 0, 1, 2, 7, 6, 5]
    new = [int(x) for x in np.random.default_rng(5).integers(0, 1000, 40)]
    prompt = [*copied, *copied]
    says = scripted(1000, copied + new, start=len(prompt))
    rig = Rig(says, draft=says, n_vocab=1000)
    assert isinstance(rig.drafter, ModelDrafter)
    rig.drafter.context.costs.observe(1, 0.001)
    events = generate(
        rig.target,
        [LookupDrafter(), rig.drafter],
        AdaptiveDraftLength(lambda width: 1.0, longest=4),
        prompt,
        max_tokens=50,
    )
    *_, finished = events
    assert isinstance(finished, Finished)
    assert list(finished.tokens) == copied + new
    counts = finished.stats.by_drafter
    assert counts["lookup"].accepted >= 8
    assert counts["fake"].accepted == counts["fake"].drafted > 24


def test_the_draft_model_reads_nothing_before_the_first_token() -> None:
    rig = Rig(TARGET, draft=TARGET)
    events = rig.events(PROMPT, 4, max_tokens=20)
    next(events)
    assert rig.draft_cache.passes == 0
    next(events)
    assert rig.draft_cache.passes > 0


@pytest.mark.parametrize(("token_s", "is_read"), [(0.0001, True), (1.0, False)])
def test_whether_the_draft_model_reads_the_prompt_is_a_matter_of_its_cost(
    token_s: float, is_read: bool
) -> None:
    prompt = [i % 8 for i in range(150)]
    rig = Rig(TARGET, draft=TARGET)
    assert isinstance(rig.drafter, ModelDrafter)
    costs = rig.drafter.context.costs
    costs.observe(1, 0.001)
    costs.observe_prompt(100, 100 * token_s)
    # A pass of the target takes a second; drafts of this model are always accepted.
    controller = AdaptiveDraftLength(lambda width: 1.0, longest=4)
    *_, finished = generate(rig.target, [rig.drafter], controller, prompt, max_tokens=60)
    assert isinstance(finished, Finished)
    assert list(finished.tokens) == greedy_continuation(TARGET, prompt, 60)
    assert (rig.draft_cache.passes > 0) == is_read


@pytest.mark.parametrize("k", [0, 1, 5])
def test_logprobs_are_of_the_row_that_produced_the_token(k: int) -> None:
    rig = Rig(TARGET, draft=markov(8, seed=8), logprobs=2)
    answer = rig.run(PROMPT, k, max_tokens=20)
    assert [lp.token for lp in answer.logprobs] == list(answer.tokens)
    for i, found in enumerate(answer.logprobs):
        row = TARGET([*PROMPT, *answer.tokens[:i]]).astype(np.float64)
        expected = row[found.token] - np.log(np.exp(row).sum())
        assert found.logprob == pytest.approx(expected, abs=1e-5)
        assert found.top[0][0] == found.token  # greedy


def test_logprobs_end_where_the_text_does() -> None:
    model = scripted(8, [0, 1, 2, 3, 4, 5], start=len(PROMPT))
    answer = Rig(model, draft=model, logprobs=1).run(PROMPT, 4, stop=["cd"], max_tokens=9)
    assert len(answer.logprobs) == len(answer.tokens) == 2


class OnlyListens(FixedDraftLength):
    """Never drafts, and notes what drafts would have been worth."""

    def __init__(self) -> None:
        super().__init__(0)
        self.heard: list[tuple[str, int, int]] = []

    def learn(self, offer: Offer, drafted: int, accepted: int) -> None:
        self.heard.append((offer.family, drafted, accepted))


def test_drafts_that_cost_nothing_are_judged_without_being_made() -> None:
    script = [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6]
    rig, controller = Rig(scripted(8, script, start=len(PROMPT))), OnlyListens()
    *_, answer = generate(rig.target, [LookupDrafter()], controller, PROMPT, max_tokens=13)
    assert isinstance(answer, Finished)
    assert answer.stats.drafted == 0
    # PROMPT holds 1, 2, 3: what follows them is wrong at first, and right when they come again.
    assert ("lookup", 2, 0) in controller.heard
    assert controller.heard[-3:] == [("lookup", 2, 2), ("lookup", 2, 1), ("lookup", 2, 0)]


class Alternates(OnlyListens):
    """Every second round has a draft of two tokens; also notes what it heard before the last."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0
        self.accepted = 0
        self.heard_before: list[tuple[str, int, int]] = []

    def choose(self, offers: Sequence[Offer | None], room: int) -> Choice:
        self.rounds += 1
        return Choice(0, 2) if self.rounds % 2 == 0 and offers[0] and room >= 2 else ALONE

    def observe(
        self, offer: Offer, drafted: int, accepted: int, confidence: Sequence[float] = ()
    ) -> None:
        self.accepted += accepted
        self.heard_before = self.heard.copy()


def test_a_drafter_that_drafts_itself_is_not_judged_by_its_open_guesses_too() -> None:
    script = [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
    rig, controller = Rig(scripted(8, script, start=len(PROMPT))), Alternates()
    *_, answer = generate(rig.target, [LookupDrafter()], controller, PROMPT, max_tokens=18)
    assert isinstance(answer, Finished)
    assert controller.accepted >= 6
    # Each guess was open when the drafter was asked, unless its first token was wrong.
    assert {accepted for _, _, accepted in controller.heard_before} <= {0}


class Listens(FixedDraftLength):
    """Notes what it hears of the drafts that it has asked for."""

    def __init__(self, k: int) -> None:
        super().__init__(k)
        self.heard: list[tuple[int, int, list[float]]] = []

    def observe(
        self, offer: Offer, drafted: int, accepted: int, confidence: Sequence[float] = ()
    ) -> None:
        self.heard.append((drafted, accepted, list(confidence)))


@pytest.mark.parametrize(("token_s", "guesses"), [(0.0, [2]), (0.1, [])])
def test_of_a_draft_that_came_to_nothing_the_controller_hears(
    token_s: float, guesses: list[int]
) -> None:
    class Speechless(_Broken):
        def offer(self, prefix: Tokens) -> Offer:
            return Offer("speechless", 100, 0.5, token_s=token_s)

    asked: list[int] = []

    def propose(prefix: Tokens, k: int) -> Draft:
        asked.append(k)
        return Draft()

    controller = Listens(3)
    drafter = Speechless(propose)
    *_, answer = generate(Rig(TARGET).target, [drafter], controller, PROMPT, max_tokens=12)
    assert isinstance(answer, Finished)
    # The last round has no room for a draft: what costs nothing makes a guess in it.
    assert asked == [*[3] * 8, 2, 1, *guesses]
    assert controller.heard == [(0, 0, [])] * 10


def test_of_how_sure_a_draft_was_the_controller_hears() -> None:
    controller = Listens(2)
    drafter = _Broken(lambda prefix, k: Draft([1], [None], [0.75, 0.25]))
    *_, answer = generate(Rig(TARGET).target, [drafter], controller, PROMPT, max_tokens=8)
    assert isinstance(answer, Finished)
    assert controller.heard
    assert {tuple(confidence) for _, _, confidence in controller.heard} == {(0.75, 0.25)}


def test_of_drafts_that_were_not_made_the_controller_hears_nothing() -> None:
    for k, propose in ((0, lambda prefix, k: Draft()), (3, _raise)):
        controller = Listens(k)
        *_, answer = generate(
            Rig(TARGET).target, [_Broken(propose)], controller, PROMPT, max_tokens=12
        )
        assert isinstance(answer, Finished)
        assert controller.heard == []


@pytest.mark.parametrize("length", range(1, 8))
def test_an_answer_cut_inside_a_character_ends_before_it_and_keeps_its_tokens(length: int) -> None:
    letters = "a\U0001f468ế".encode()  # 1, 4 and 3 bytes, each in a token of its own
    pieces = {i: letters[i : i + 1] for i in range(8)}
    rig = Rig(scripted(8, range(8), start=len(PROMPT)), pieces=pieces)
    answer = rig.run(PROMPT, max_tokens=length)
    assert answer.text == letters[:length].decode("utf-8", "ignore")
    assert answer.tokens == tuple(range(length))
    assert answer.reason == "length"
