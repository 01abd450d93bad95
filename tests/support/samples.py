"""Samples and reports of benchmark runs that never happened."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from specchat.benchmark.report import Condition, OwnTiming, Report, Sample, SideInfo
from specchat.benchmark.summary import ALONE, comparisons, figures
from specchat.doctor.machine import Machine, ModelFile
from specengine.sampling import SamplingParams


def sample(side: str, tokens_per_s: float, **changes: Any) -> Sample:
    """An answer of 101 tokens at this speed."""
    fields: dict[str, Any] = {
        "condition": "greedy",
        "category": "code",
        "prompt": "code-1",
        "turn": 1,
        "repeat": 0,
        "side": side,
        "prompt_tokens": 20,
        "completion_tokens": 101,
        "finish_reason": "length",
        "ttft_s": 0.5,
        "decode_s": 100 / tokens_per_s,
        "own": OwnTiming(decode_s=100 / tokens_per_s, overhead_s=1 / tokens_per_s),
        "target_passes": 100,
        "drafted": 0,
        "accepted": 0,
        "energy_j": None,
        "digest": "same",
    }
    return Sample(**(fields | changes))


def report(samples: list[Sample], *, complete: bool = True) -> Report:
    sides = list(dict.fromkeys(s.side for s in samples))
    conditions = dict.fromkeys(s.condition for s in samples)
    model = ModelFile(
        file="t.gguf",
        name="Test (depth-padded x4)",
        bytes=1,
        sha256="0" * 64,
        quantization="Q4_1",
        pass_s={1: 0.1, 2: 0.1},
    )
    machine = Machine(
        platform="p",
        cpu="Some CPU",
        cores=2,
        memory_bytes=1,
        python="3.11",
        llama_cpp_python="0.3.36",
        llama_cpp_features="AVX2",
        threads=2,
        openmp={"GOMP_SPINCOUNT": "1000"},
    )
    pairs = [(side, ALONE) for side in sides if side != ALONE]
    pairs += [("adaptive", side) for side in sides if side.startswith("llama-server")]
    return Report(
        specchat="0",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        complete=complete,
        machine=machine,
        profile="test",
        target=model,
        draft=None,
        sides=tuple(SideInfo(name=side, description=f"what {side} is") for side in sides),
        conditions=tuple(
            Condition(name=name, sampling=SamplingParams(temperature=0)) for name in conditions
        ),
        max_tokens=101,
        repeats=5,
        reproducible=False,
        bound=2.0,
        figures=figures(samples, sides, ["greedy"]),
        comparisons=comparisons(samples, pairs, 2.0),
        samples=tuple(samples),
    )
