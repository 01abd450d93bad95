"""Whatever enters a pass, every session's text is that of the model alone with its seed."""

from __future__ import annotations

import random
import threading
import time

import pytest

from specengine.core.errors import BackendError
from specengine.drafters.lookup import LookupDrafter
from specengine.sampling import SamplingParams
from specengine.serve.scheduler import Load
from specengine.stream.committed import Committed, Ended
from specengine.stream.transcript import Transcript
from support.fakes import greedy_continuation, scripted
from support.rig import Rig
from support.scheduler_rig import MODEL, Server, V


def alone(prompt: list[int], n: int, temperature: float, seed: int) -> list[int]:
    """What the same model says locally with the same seed and no drafter."""
    sampling = SamplingParams(temperature=temperature, seed=seed)
    rig = Rig(MODEL, n_vocab=V, sampling=sampling, rule="coupled")
    return list(rig.run(prompt, max_tokens=n).tokens)


def test_an_answer_is_that_of_the_model_alone() -> None:
    server = Server()
    server.ask("a", [1, 2, 3], 20)
    server.run()
    assert server.said("a") == greedy_continuation(MODEL, [1, 2, 3], 20)
    assert server.ended("a").reason == "length"


def test_a_seed_gives_the_text_that_it_gives_locally() -> None:
    server = Server()
    server.ask("a", [1, 2, 3], 20, temperature=1.0, seed=5)
    server.run()
    assert server.said("a") == alone([1, 2, 3], 20, 1.0, 5)
    assert server.said("a") != alone([1, 2, 3], 20, 1.0, 6)


def test_right_hints_save_passes_and_change_nothing() -> None:
    expected = greedy_continuation(MODEL, [1, 2, 3], 20)
    server = Server()
    generation = server.ask("a", [1, 2, 3], 20)
    server.scheduler.hint(generation, Transcript([1, 2, 3]).hash, expected)
    server.run()
    assert server.said("a") == expected
    assert len(server.cache.passes) == 1 + 2  # the prompt, then 17 and 2 tokens
    events = [event for event in server.events["a"] if isinstance(event, Committed)]
    assert [(event.drafted, event.accepted) for event in events] == [(0, 0), (16, 16), (1, 1)]
    assert [event.pos for event in events] == [3, 4, 21]


@pytest.mark.parametrize("seed", range(8))
def test_no_hint_however_wrong_late_or_repeated_changes_a_text(seed: int) -> None:
    rng = random.Random(seed)
    server = Server(n_sequences=3)
    prompts = {name: [rng.randrange(V) for _ in range(rng.randint(1, 70))] for name in "abc"}
    texts = {name: alone(prompt, 24, 0.8, seed) for name, prompt in prompts.items()}
    running = {
        name: server.ask(name, prompt, 24, temperature=0.8, seed=seed)
        for name, prompt in prompts.items()
    }
    for _ in range(200):
        name = rng.choice("abc")
        start, n = rng.randrange(24), rng.randint(1, 6)
        tokens = texts[name][start : start + n]
        if rng.random() < 0.4:
            tokens = [rng.randrange(V) for _ in tokens]
        prefix = Transcript([*prompts[name], *texts[name][:start]])
        server.scheduler.hint(running[name], prefix.hash, tokens)
        if rng.random() < 0.3:
            server.scheduler.step()
    server.run()
    assert {name: server.said(name) for name in "abc"} == texts


def test_penalties_see_hints_as_if_they_stood() -> None:
    alone, server = Server(), Server()
    alone.ask("a", [1, 2, 3], 20, frequency_penalty=4.0)
    alone.run()
    assert alone.said("a") != greedy_continuation(MODEL, [1, 2, 3], 20)
    hinted = server.ask("a", [1, 2, 3], 20, frequency_penalty=4.0)
    server.scheduler.hint(hinted, Transcript([1, 2, 3]).hash, alone.said("a"))
    server.run()
    assert server.said("a") == alone.said("a")
    assert len(server.cache.passes) == 3  # a pass with many hints was among them


def test_a_session_has_one_answer_at_a_time() -> None:
    server = Server()
    server.ask("a", [1, 2, 3], 5)
    first = server.events["a"]
    server.ask("a", [4, 5], 5)
    server.scheduler.step()
    assert server.scheduler.load == Load(running=1, waiting=1, places_held=1)
    server.run()
    assert len(first) == len(server.events["a"]) == 6
    assert server.said("a") == greedy_continuation(MODEL, [4, 5], 5)


def test_every_session_that_has_work_is_in_each_pass() -> None:
    server = Server(n_sequences=3)
    for name in "abc":
        server.ask(name, [1, 2, 3], 5)
    server.run()
    assert all(set(one) == {0, 1, 2} for one in server.cache.passes)


def test_a_long_prompt_lets_others_go_on() -> None:
    server = Server(n_sequences=2, n_ctx=512, n_batch=128)
    server.ask("a", [1, 2, 3], 30)
    server.scheduler.step()
    server.ask("b", [i % V for i in range(300)], 2)
    server.run()
    chunks = [one.get(1, 0) for one in server.cache.passes[1:6]]
    assert chunks == [64, 64, 64, 64, 44]
    assert all(0 in one for one in server.cache.passes[1:6])


def test_the_next_turn_evaluates_only_what_is_new() -> None:
    server = Server()
    server.ask("a", [1, 2, 3, 4, 5, 6], 4)
    server.run()
    before = len(server.cache.passes)
    text = [1, 2, 3, 4, 5, 6, *server.said("a")]
    server.ask("a", [*text, 7, 8, 9], 1)
    server.run()
    assert server.cache.passes[before:] == [{0: 4}]  # the last token committed, and three more
    assert server.said("a") == greedy_continuation(MODEL, [*text, 7, 8, 9], 1)


def test_who_waits_for_a_place_gets_that_of_the_longest_idle() -> None:
    server = Server(n_sequences=2)
    for name in "abc":
        server.ask(name, [1, 2, 3], 3)
        server.run()
        server.clock.now += 1
    server.ask("b", [1, 2, 3], 3)
    server.run()
    assert server.said("c") == server.said("b") == greedy_continuation(MODEL, [1, 2, 3], 3)
    # b kept its place: only its last token is evaluated, padded to two.
    assert server.cache.passes[-3:] == [{1: 2}, {1: 2}, {1: 2}]


def test_more_sessions_than_places_take_turns() -> None:
    server = Server(n_sequences=2)
    for name in "abcde":
        server.ask(name, [1, 2], 6)
    server.scheduler.step()
    assert server.scheduler.load == Load(running=2, waiting=3, places_held=2)
    server.run()
    assert all(server.said(name) == greedy_continuation(MODEL, [1, 2], 6) for name in "abcde")


def test_an_end_token_is_reported_and_not_committed() -> None:
    server = Server(scripted(V, [5, 6, 2, 7], start=2), eog=(2,))
    server.ask("a", [1, 1], 10)
    server.run()
    assert server.said("a") == [5, 6]
    assert server.ended("a") == Ended("stop", end_token=2)


def test_an_end_token_among_the_hints_ends_the_answer_there() -> None:
    server = Server(scripted(V, [5, 6, 2, 7], start=2), eog=(2,))
    generation = server.ask("a", [1, 1], 10)
    server.scheduler.hint(generation, Transcript([1, 1]).hash, [5, 6, 2, 7])
    server.run()
    assert server.said("a") == [5, 6]
    assert server.ended("a") == Ended("stop", end_token=2)


def test_a_drafter_saves_passes_and_changes_nothing() -> None:
    plain, drafted = Server(), Server()
    plain.ask("a", [1, 2, 3], 12)
    plain.run()
    said = plain.said("a")
    drafter = LookupDrafter()
    drafter.remember([[1, 2, 3, *said]])
    generation = drafted.ask("a", [1, 2, 3], 12, drafter=drafter)
    drafted.run()
    assert drafted.said("a") == said
    assert drafted.scheduler.passes < plain.scheduler.passes
    assert generation.cached == 0


def test_what_the_cache_had_of_a_prompt_is_told() -> None:
    server = Server()
    server.ask("a", [1, 2, 3], 2)
    server.run()
    generation = server.ask("a", [1, 2, 3], 2)
    server.run()
    assert generation.cached == 2  # the last is evaluated again, for what comes after it


def test_nobody_is_patient_at_a_place_that_others_wait_for() -> None:
    server = Server(n_sequences=1)
    server.ask("a", [1, 2, 3], 4, patience_s=60.0)
    server.run()
    assert len(server.said("a")) == 1
    server.ask("b", [1, 2, 3], 1)
    server.run()
    assert (len(server.said("a")), len(server.said("b"))) == (4, 1)


def test_patience_waits_for_hints_and_then_goes_alone() -> None:
    server = Server()
    generation = server.ask("a", [1, 2, 3], 10, patience_s=2.0)
    server.run()
    assert len(server.said("a")) == 1
    assert server.scheduler.step() == pytest.approx(2.0)
    server.scheduler.hint(generation, generation.transcript.hash, [0])
    server.run()
    assert len(server.said("a")) >= 2
    before = len(server.said("a"))
    server.clock.now += 2.5
    server.run()
    assert len(server.said("a")) == before + 1


def test_nobody_waits_for_a_hint_that_could_save_no_pass() -> None:
    server = Server()
    server.ask("a", [1, 2, 3], 1, patience_s=60.0)
    server.ask("b", [1, 2, 3], 2, patience_s=60.0)
    server.run()
    assert server.ended("a").reason == server.ended("b").reason == "length"


def test_cancel_ends_an_answer_and_frees_its_place() -> None:
    server = Server(n_sequences=1)
    first = server.ask("a", [1, 2, 3], 50)
    server.ask("b", [1, 2], 3)
    server.scheduler.step()
    server.scheduler.cancel(first)
    server.run()
    assert server.ended("a").reason == "cancelled"
    assert server.ended("b").reason == "length"
    server.scheduler.cancel(first)  # it has ended already
    server.run()
    assert server.ended("a").reason == "cancelled"


def test_release_empties_the_cache() -> None:
    server = Server(n_sequences=1)
    server.ask("a", [1, 2, 3], 3)
    server.run()
    assert server.cache.held[0]
    server.scheduler.release("a")
    server.run()
    assert server.cache.held == [[]]
    assert server.scheduler.load == Load(0, 0, 0)


def test_a_failed_pass_ends_its_answers_and_leaves_the_server_well() -> None:
    server = Server()

    def fail() -> None:
        raise BackendError("the pass failed")

    server.cache.before_decode = fail
    server.ask("a", [1, 2, 3], 10)
    server.scheduler.step()
    server.cache.before_decode = lambda: None
    assert server.ended("a") == Ended("error", error="the pass failed")
    server.ask("a", [1, 2, 3], 10)
    server.run()
    assert server.said("a") == greedy_continuation(MODEL, [1, 2, 3], 10)


def test_a_fault_of_ours_ends_its_answers_and_leaves_the_server_well() -> None:
    server = Server()
    faults = [ZeroDivisionError()]

    def fail() -> None:
        if faults:
            raise faults.pop()

    server.cache.before_decode = fail
    running = threading.Thread(target=server.scheduler.run, daemon=True)
    server.ask("a", [1, 2, 3], 10)
    running.start()
    while not server.events["a"]:
        time.sleep(0.001)
    assert server.ended("a") == Ended("error", error="internal error (ZeroDivisionError)")
    server.ask("a", [1, 2, 3], 10)
    while not any(isinstance(event, Ended) for event in server.events["a"]):
        time.sleep(0.001)
    server.scheduler.stop()
    running.join(5)
    assert server.said("a") == greedy_continuation(MODEL, [1, 2, 3], 10)


def test_stop_ends_everything() -> None:
    server = Server(n_sequences=1)
    server.ask("a", [1, 2, 3], 50)
    server.ask("b", [1, 2, 3], 50)
    server.scheduler.step()
    server.scheduler.stop()
    server.scheduler.run()
    assert server.ended("a").reason == server.ended("b").reason == "shutdown"


def test_a_server_at_rest_stops_too() -> None:
    server = Server()
    running = threading.Thread(target=server.scheduler.run, daemon=True)
    running.start()
    server.ask("a", [1, 2, 3], 2)
    while server.scheduler.passes < 2:
        time.sleep(0.001)
    server.scheduler.stop()
    running.join(5)
    assert not running.is_alive()


def test_margins_are_the_gaps_between_the_best_two() -> None:
    server = Server()
    server.ask("a", [1, 2, 3], 1)
    server.run()
    event = server.events["a"][0]
    assert isinstance(event, Committed)
    best, second = sorted(MODEL([1, 2, 3]).tolist())[:-3:-1]
    assert event.margins == pytest.approx((best - second,))
