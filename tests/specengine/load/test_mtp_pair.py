"""The engine with the heads in the target's own file: the text is the target's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specengine.core.errors import ModelFileError
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.sampling import SamplingParams
from support.mtp_models import N_VOCAB, write_qwen35, write_step35
from support.pair_answers import GREEDY, alone, run

pytestmark = pytest.mark.kernels

OPTIONS = LoadOptions(n_ctx=256, n_threads=1)
PROMPT = [(7 * i + i * i) % (N_VOCAB - 1) for i in range(70)]
WORDS = [chr(97 + i) if i < 26 else chr(39 + i) for i in range(N_VOCAB)]


@pytest.fixture(params=["one head", "three heads", "hybrid"])
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    path = tmp_path / "model.gguf"
    if request.param == "hybrid":
        write_qwen35(path, WORDS)
    else:
        write_step35(path, 1 if request.param == "one head" else 3, WORDS)
    pair = Pair(path, method="mtp", options=OPTIONS)
    yield pair
    pair.close()


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(temperature=1, seed=4)])
def test_turns_are_the_targets_own(
    pair: Pair, sampling: SamplingParams, request: pytest.FixtureRequest
) -> None:
    first = run(pair, PROMPT, sampling=sampling, draft_length=5)
    assert first.stats.by_drafter["mtp"].drafted == first.stats.drafted > 20
    longest = 3 if "three heads" in request.node.name else 5
    assert first.stats.drafted <= longest * first.stats.rounds
    turn = [*PROMPT[:50], *first.tokens, 3, 1, 4]
    second = run(pair, turn, sampling=sampling, draft_length=2)
    assert second.stats.drafted > 20
    for prompt, drafted in ((PROMPT, first), (turn, second)):
        assert alone(pair, prompt, sampling=sampling) == drafted.tokens


def test_the_controller_knows_their_price_and_they_are_no_file(pair: Pair) -> None:
    pair.calibrate()
    assert pair.costs["mtp"].seconds(1) > 0
    assert len(pair.files) == len(pair.measure_passes(prefix=20, repeats=1)) == 1
    assert run(pair, PROMPT, max_tokens=30).stats.completion_tokens == 30


def test_a_model_without_heads_is_refused(tiny_model: Path) -> None:
    with pytest.raises(ModelFileError, match="has no heads for multi-token prediction"):
        Pair(tiny_model, method="mtp", options=OPTIONS)
