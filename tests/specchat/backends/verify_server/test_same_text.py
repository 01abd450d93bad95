"""The text for a seed is that of the server alone, whatever happens to drafts and connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from remote.delay_line import DelayProxy, Line
from specchat.backends.answer_options import AnswerOptions
from specchat.backends.verify_server import stream
from specchat.backends.verify_server.pair import RemoteOptions
from specchat.backends.verify_server.stream import RemoteStream
from specengine.chat.chat_template import Turn
from specengine.core.events import Finished
from specengine.sampling import SamplingParams
from support.buffering_proxies import BuffersUp
from support.remote_chat import QUESTION, ask, ended, remote_runtime
from support.smollm import UNENDING
from support.verify_server import VerifyServer, flat_costs, running_server, slow_passes

pytestmark = pytest.mark.usefixtures("smollm_step")


@pytest.fixture(scope="module")
def answers() -> list[Finished]:
    """The answer of the server alone, once a test has asked for it."""
    return []


async def plain(server: VerifyServer, answers: list[Finished]) -> tuple[int, ...]:
    if not answers:
        async with remote_runtime(server.url) as runtime:
            answers.append(await ask(runtime))
    assert len(answers[0].tokens) > 25
    return answers[0].tokens


async def test_the_server_alone_says_what_the_model_says_here(
    server: VerifyServer, answers: list[Finished], tiny_model: Path
) -> None:
    async with remote_runtime(tiny_model) as runtime:
        here = await ask(runtime, reproducible=True, drafting=False)
    assert here.tokens == await plain(server, answers)


@pytest.mark.parametrize("draft", ["lookup", "model"])
async def test_drafts_change_nothing_and_save_passes(
    server: VerifyServer, answers: list[Finished], tiny_model: Path, draft: str
) -> None:
    drafter = tiny_model if draft == "model" else draft
    patience = 0 if draft == "lookup" else 2000
    remote = RemoteOptions(patience_ms=patience)
    with flat_costs(server):
        async with remote_runtime(server.url, drafter, remote=remote) as runtime:
            finished = await ask(runtime)
    assert finished.tokens == await plain(server, answers)
    if draft == "model":
        # It drafts for itself. But a near-tie of its narrower passes costs the rest of a draft.
        assert (finished.stats.acceptance_rate or 0) > 0.5
        assert (finished.stats.target_passes or 99) < 30


@pytest.mark.parametrize("build", ["all kernels", "without repacking"])
async def test_a_seed_is_a_text_bit_for_bit(tiny_model: Path, build: str) -> None:
    """Without a drafter, with one, with a fifth of the hints lost, with ten cuts, under load."""
    with running_server(tiny_model, use_extra_bufts=build == "all kernels") as server:
        if server.service.model.step is None:
            pytest.skip("no width of passes is stable with this build")
        alone = await answer_at(server.url, "none")
        with slow_passes():
            drafted = await answer_at(server.url, tiny_model)
        with losing_hints(0.2) as lost:
            with_losses = await answer_at(server.url, tiny_model)
        with DelayProxy(server.url) as proxy:
            async with remote_runtime(proxy.url, tiny_model) as runtime:
                proxy.line = Line(cut_after=400, cuts=10)
                with_cuts = await ask(runtime)
        among_others, *_ = await asyncio.gather(
            answer_at(server.url, tiny_model),
            answer_at(server.url, "lookup", "Count. " * 40, seed=9),
            answer_at(server.url, "none", "Tell a story.", seed=8),
        )
    assert len(alone.tokens) > 25
    for answer in (drafted, with_losses, with_cuts, among_others):
        assert answer.tokens == alone.tokens
        assert answer.text == alone.text
        assert answer.reason == alone.reason
    assert alone.stats.drafted == 0
    assert drafted.stats.accepted > 0
    assert lost
    assert proxy.traffic.cut == 10
    assert any("taken up again" in notice for notice in with_cuts.notices)


async def answer_at(
    url: str, draft: str | Path, question: str = QUESTION, seed: int = 5
) -> Finished:
    async with remote_runtime(url, draft) as runtime:
        return await ask(runtime, question, seed=seed)


@contextmanager
def losing_hints(share: float) -> Iterator[list[Sequence[int]]]:
    """The hints that are lost, at random."""
    rng, send, lost = random.Random(2), RemoteStream.hint, list[Sequence[int]]()

    def lossy(self: RemoteStream, pos: int, prefix_hash: bytes, tokens: Sequence[int]) -> None:
        if rng.random() < share:
            lost.append(tokens)
        else:
            send(self, pos, prefix_hash, tokens)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoteStream, "hint", lossy)
        yield lost


async def test_a_long_line_with_jitter_changes_nothing(
    server: VerifyServer, answers: list[Finished], tiny_model: Path
) -> None:
    with DelayProxy(server.url, Line(round_trip_s=0.1, jitter_s=0.05)) as proxy:
        async with remote_runtime(proxy.url, tiny_model) as runtime:
            finished = await ask(runtime)
    assert finished.tokens == await plain(server, answers)


async def test_hints_find_another_way_where_uploads_are_held_back(
    server: VerifyServer,
    answers: list[Finished],
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "_IN_VAIN", 4)
    with flat_costs(server), BuffersUp(server.url) as proxy:
        patient = RemoteOptions(patience_ms=200)
        async with remote_runtime(proxy.url, tiny_model, remote=patient) as runtime:
            finished = await ask(runtime)
    assert finished.tokens == await plain(server, answers)
    assert finished.stats.accepted > 5


async def test_a_banned_token_stays_away(server: VerifyServer, answers: list[Finished]) -> None:
    banned = (await plain(server, answers))[0]
    async with remote_runtime(server.url) as runtime:
        finished = await ask(runtime, max_tokens=20, logit_bias={**UNENDING, banned: float("-inf")})
    assert len(finished.tokens) == 20
    assert banned not in finished.tokens


async def test_the_next_turn_sends_only_what_is_new(server: VerifyServer, tiny_model: Path) -> None:
    with DelayProxy(server.url) as proxy:
        async with remote_runtime(proxy.url) as runtime:
            first = await ask(runtime, "Tell a story. " * 20, max_tokens=8)
            before = proxy.traffic.up
            turns = [
                Turn("system", ""),
                Turn("user", "Tell a story. " * 20),
                Turn("assistant", first.text, first.tokens),
                Turn("user", "Go on."),
            ]
            options = AnswerOptions(sampling=SamplingParams(seed=1), max_tokens=4)
            assert (await ended(runtime, turns, options)).reason == "length"
            # Twenty repetitions alone would be 80 ids and more.
            assert proxy.traffic.up - before < 1500
