"""Hybrid runs: what their figures mean, and a whole one on the embedded default model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from remote import run
from remote.report import HybridReport, HybridSample, Way, render, rows_of
from remote.run import HybridPlan, PassClock
from servers import specchat_serve
from servers.specchat_serve import Serving
from specchat.backends.verify_server import stream
from specchat.backends.verify_server.client import Line, VerifyServer
from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.suite import Item
from specchat.config import locations
from specchat.models.registry import Profile, load_registry
from specchat.wire.address import parse_address
from support.command_line import bench_program
from support.rig import GREEDY

FLAT = {1: 0.1, 5: 0.1}


def sample(prompt: str, way: Way, rate: float, **changes: Any) -> HybridSample:
    """An answer of 11 tokens."""
    content = {
        **{"round_trip_ms": 50.0, "category": "code", "prompt": prompt, "way": way},
        **{"tokens": 11, "decode_s": 10 / rate, "passes": 10, "drafted": 0, "accepted": 0},
        **{"corrected": 0, "bytes_up": 0, "bytes_down": 0, "digest": "same"},
    }
    return HybridSample(**{**content, **changes})


def test_a_category_counts_by_the_median_of_its_prompts() -> None:
    samples = []
    for prompt, rate in (("a", 12.0), ("b", 15.0), ("c", 30.0)):
        samples += [
            sample(prompt, "streaming", 10.0),
            sample(prompt, "hybrid", rate, accepted=6, corrected=2, bytes_up=440, bytes_down=990),
            sample(prompt, "asking", 5.0, digest="other" if prompt == "b" else "same"),
        ]
    code, everything = rows_of(samples, FLAT, draft_s=0.01, k=4)
    assert (code.category, code.hybrid, code.asking) == ("code", 1.5, 0.5)
    assert code.acceptance == 0.75
    assert (code.bytes_up_per_token, code.bytes_down_per_token) == (40, 90)
    assert not code.same_text
    assert everything.category is None
    assert everything.hybrid == pytest.approx(1.5)
    # A round: 1 + .75 + … tokens in 4·10 + 50 + 100 ms; the target alone: one in 100 ms.
    assert code.simulated_asking == pytest.approx((1 - 0.75**5) / 0.25 * 0.1 / 0.19)
    assert 1.5 < code.simulated_hybrid < 3


def test_a_category_that_was_not_answered_in_every_way_has_no_row() -> None:
    samples = [sample("a", "streaming", 10), sample("a", "hybrid", 10)]
    assert rows_of(samples, FLAT, 0.01, 4) == ()


async def test_passes_are_timed_by_the_servers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    async def generate(self: VerifyServer, session: str, body: dict[str, Any]) -> Any:
        yield Line(gen=1, pos=3, tokens=[], t_us=0)
        for at, drafted in ((100, 0), (130, 0), (190, 4), (230, 0), (280, 4)):
            yield Line(gen=1, pos=3, tokens=[1], drafted=drafted, t_us=1000 * at)

    monkeypatch.setattr(VerifyServer, "generate", generate)
    clock = PassClock(parse_address("http://127.0.0.1:1"), None)
    assert len([line async for line in clock.generate("s", {})]) == 6
    clock.on = False
    assert [line async for line in clock.generate("s", {})]
    await clock.close()
    # The first token came with the prompt.
    assert clock.medians() == {1: pytest.approx(0.035), 5: pytest.approx(0.055)}


@pytest.mark.slow
def test_a_run_with_two_processes_and_a_line(tiny_model: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(
        json.dumps({"id": "a-1", "category": "a", "prompt": "Count to nine."}), encoding="utf-8"
    )
    done = bench_program(
        "hybrid.py",
        tmp_path,
        *("--target", "smollm2-135m", "--draft", "smollm2-135m"),
        *("--prompts", str(prompts), "--round-trip", "20", "--max-tokens", "8", "--ctx", "512"),
        "--json",
    )
    assert done.returncode == 0, done.stderr.decode()
    report = HybridReport.model_validate_json(done.stdout)
    assert report.target_file is not None
    assert report.target_file == report.draft_file
    assert (report.target_file.file, len(report.target_file.sha256)) == (tiny_model.name, 64)
    assert report.machine is not None
    assert (report.machine.threads, report.max_tokens, report.profile) == (1, 8, "custom")
    row, everything = report.rows
    assert (row.category, everything.category, row.same_text) == ("a", None, True)
    assert (row.acceptance or 0) > 0.5  # the drafter is the target's own file
    assert row.bytes_down_per_token > 20
    assert {s.way for s in report.samples} == {"streaming", "hybrid", "asking"}
    assert [s.drafted > 0 for s in report.samples if s.way == "streaming"] == [False]
    console = Console(width=80, record=True)
    console.print(render(report))
    assert "× plain streaming" in console.export_text()


@pytest.mark.slow
def test_a_server_that_dies_leaves_what_was_measured(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_GIVE_UP_S", 0.0)
    monkeypatch.setattr(run, "cores", list)
    served: list[Serving] = []

    @contextmanager
    def serving(*arguments: Any) -> Iterator[Serving]:
        with specchat_serve.serving(*arguments) as server:
            served.append(server)
            yield server

    def say(words: str) -> None:
        if words.startswith("2: "):
            served[0]._process.kill()
            served[0]._process.wait()

    monkeypatch.setattr(run, "serving", serving)
    name = "smollm2-135m"
    profile = Profile(name="p", description="", target=name, draft=name, n_ctx=512)
    items = (Item(id="a-1", category="a", turns=("Count to nine.",)),)
    plan = HybridPlan(profile, items, GREEDY, (0.0,), max_tokens=4)
    outcome = run.run(plan, load_registry(locations.registry_file()), say)
    assert isinstance(outcome.error, BenchmarkError)
    assert "the server has ended; its log ends: " in str(outcome.error)
    assert [sample.way for sample in outcome.report.samples] == ["streaming", "hybrid"]
    assert not outcome.report.complete


def test_a_draft_model_is_needed() -> None:
    profile = Profile(name="p", description="", target="smollm2-135m", draft="lookup", n_ctx=512)
    with pytest.raises(BenchmarkError, match="name one with --draft"):
        run.run(HybridPlan(profile, (), GREEDY), load_registry(), print)
