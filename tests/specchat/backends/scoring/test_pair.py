"""A real model behind the interfaces of SGLang and vLLM, from the address to the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import draft_model, opening
from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specengine.cache.costs import PassCosts
from specengine.chat.chat_template import Turn
from specengine.core.errors import OutOfMemoryError
from specengine.core.events import Finished
from specengine.files.gguf import GGUF
from specengine.llama import offload
from specengine.llama.placement import Device, Placement
from specengine.load.loaded_model import LoadedModel
from specengine.sampling import SamplingParams
from support.command_line import specchat
from support.remote_chat import ended, remote_runtime
from support.served_models import Babbler, BigModel, serving

pytestmark = pytest.mark.usefixtures("smollm_step")

GREEDY = SamplingParams(temperature=0)
TURNS = [Turn("system", ""), Turn("user", "Count from one to twenty.")]


@pytest.fixture(scope="module")
def big(tiny_model: Path) -> Iterator[BigModel]:
    model = BigModel(tiny_model)
    yield model
    model.close()


@pytest.fixture(scope="module")
def babbler(tiny_model: Path) -> Iterator[BigModel]:
    model = Babbler(tiny_model)
    yield model
    model.close()


async def ask(runtime: Runtime, **options: Any) -> Finished:
    settings: dict[str, Any] = {"sampling": GREEDY, "max_tokens": 16, "draft_length": 4, **options}
    return await ended(runtime, TURNS, AnswerOptions(**settings))


@pytest.fixture(scope="module")
def here(tiny_model: Path) -> list[Finished]:
    """What the model says without any server, once a test has asked for it."""
    return []


async def alone(tiny_model: Path, here: list[Finished]) -> tuple[int, ...]:
    if not here:
        async with remote_runtime(tiny_model) as runtime:
            here.append(await ask(runtime, drafting=False, draft_length=None, reproducible=True))
    return here[0].tokens


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
async def test_drafts_are_proved_then_verified(
    big: BigModel, tiny_model: Path, here: list[Finished], engine: str
) -> None:
    with serving(big, engine) as stand_in:
        async with remote_runtime(stand_in.url, tiny_model) as runtime:
            finished = await ask(runtime)
            by_controller = await ask(runtime, draft_length=None)
    assert finished.tokens == by_controller.tokens == await alone(tiny_model, here)
    # The draft model is the target's own file.
    assert (finished.stats.acceptance_rate or 0) > 0.8
    assert (finished.stats.target_passes or 99) < 10
    assert finished.notices == by_controller.notices == ()


async def test_scale_out_is_used_where_it_is_enough(big: BigModel, tiny_model: Path) -> None:
    untruncated = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)
    with serving(big, "vllm", scale_out=True) as stand_in:
        async with remote_runtime(stand_in.url, tiny_model) as runtime:
            finished = await ask(runtime, sampling=untruncated)
            before = [path for path, _ in stand_in.requests]
            greedy = await ask(runtime)
    assert finished.stats.accepted > 0
    assert "/inference/v1/generate" in before
    assert (greedy.stats.acceptance_rate or 0) > 0.8
    assert (finished.rule, greedy.rule) == ("token", "coupled")


async def test_where_scale_out_is_disabled_scores_come_with_completions(
    babbler: BigModel, tiny_model: Path
) -> None:
    untruncated = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)
    with serving(babbler, "vllm") as stand_in:
        async with remote_runtime(stand_in.url, tiny_model) as runtime:
            finished = await ask(runtime, sampling=untruncated, max_tokens=4)
        last = stand_in.requests[-1][0]
    assert (finished.error, finished.notices) == (None, ())
    assert finished.stats.drafted > 0
    assert last == "/v1/completions"


async def test_each_answer_finds_out_anew_what_requests_and_draft_passes_cost_now(
    babbler: BigModel, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[PassCosts] = []
    monkeypatch.setattr(PassCosts, "begin", lambda costs: begun.append(costs))
    with serving(babbler, "vllm") as stand_in:
        async with remote_runtime(stand_in.url, tiny_model) as runtime:
            for _ in range(2):
                await ask(runtime, max_tokens=2)
    assert len(begun) == 4
    target, draft = begun[:2]
    assert begun[2:] == [target, draft]
    assert target is not draft


async def test_settings_that_no_scores_are_enough_for_are_left_to_the_server(
    babbler: BigModel, tiny_model: Path
) -> None:
    with serving(babbler, "vllm") as stand_in:
        async with remote_runtime(stand_in.url, tiny_model) as runtime:
            finished = await ask(runtime, sampling=SamplingParams(temperature=0.8, seed=3))
        body = stand_in.requests[-1][1]
    assert finished.stats.drafted == 0
    assert finished.rule is None
    assert len(finished.tokens) > 5
    assert (body["temperature"], body["top_k"], body["seed"]) == (0.8, 40, 3)
    assert "big answered alone: vLLM verifies drafts at temperature 0" in finished.notices[0]
    assert "--top-k up to 20" in finished.notices[0]


@pytest.mark.parametrize(
    ("engine", "options", "cause"),
    [
        ("sglang", {"fault": "other ids"}, "scores of other tokens"),
        ("sglang", {"fault": "null"}, "scores of other tokens"),
        ("sglang", {"fault": "tempered"}, "not raw"),
        ("vllm", {"fault": "shifted"}, "scores of other tokens"),
        ("vllm", {"fault": "tempered"}, "not raw"),
        ("vllm", {"most": 0}, "tells no log-probabilities"),
    ],
)
async def test_a_server_that_cannot_prove_it_answers_alone_and_it_is_said(
    babbler: BigModel, tiny_model: Path, engine: str, options: dict[str, Any], cause: str
) -> None:
    with serving(babbler, engine, **options) as stand_in:
        async with remote_runtime(stand_in.url, tiny_model) as runtime:
            finished = await ask(runtime)
    assert finished.text == "its own words"
    assert finished.notices[0].startswith("big answered alone: ")
    assert cause in finished.notices[0]


async def test_another_vocabulary_or_template_is_noticed(
    babbler: BigModel, tiny_model: Path
) -> None:
    for change, cause in (
        ({"tokenize": lambda text: list(text.encode())}, "its vocabulary is not that"),
        ({"count_chat": lambda messages: 99}, "a chat has 99 tokens there"),
    ):
        with serving(babbler, "sglang") as stand_in:
            for name, value in change.items():
                setattr(stand_in, name, value)
            async with remote_runtime(stand_in.url, tiny_model) as runtime:
                finished = await ask(runtime)
        assert cause in finished.notices[0]


def test_connect_tells_what_it_proved(babbler: BigModel, tmp_path: Path) -> None:
    with serving(babbler, "vllm") as stand_in:
        draft = ("--draft", "smollm2-135m")
        found = json.loads(specchat(tmp_path, "connect", stand_in.url, *draft, "--json").stdout)
        printed = specchat(tmp_path, "connect", stand_in.url).stdout.decode()
    assert (found["kind"], found["cannot_verify"], found["drafts_reach_it"]) == (
        "vllm",
        None,
        "ids",
    )
    assert found["capabilities"] == {
        **{"token_prompt": True, "prompt_top_n": 20, "start_offset": False, "cached": False},
        **{"server_sampling": True},
    }
    assert 'draft = "smollm2-135m"' in found["profile"]
    assert "nothing: name the draft model with --draft" in printed
    with serving(babbler, "sglang", fault="short") as stand_in:
        done = specchat(tmp_path, "connect", stand_in.url, *draft)
    assert done.returncode == 1
    assert b"nothing: scores of other tokens" in done.stdout


async def test_without_a_draft_model_it_is_said_what_is_missing(babbler: BigModel) -> None:
    with serving(babbler, "vllm") as stand_in:
        async with remote_runtime(stand_in.url, "lookup") as runtime:
            finished = await ask(runtime)
    assert "name a draft model that has its vocabulary" in finished.notices[0]


async def test_the_draft_model_has_the_gpu_and_what_found_no_room_is_said_once(
    babbler: BigModel, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crowded(LoadedModel):
        def __init__(self, *arguments: Any, placement: Placement, **options: Any) -> None:
            if placement.n_gpu_layers > 20:
                raise OutOfMemoryError("unable to allocate CUDA0 buffer")
            super().__init__(*arguments, placement=placement, **options)

    # llama.cpp takes its CPU for a GPU.
    device = Device("CPU", "a GPU", free=8 << 30, total=8 << 30)
    monkeypatch.setattr(offload, "gpu_devices", lambda _: [device])
    monkeypatch.setattr(draft_model, "LoadedModel", Crowded)
    asked: list[Path] = []

    def cheaper(draft: GGUF, **_: Any) -> GGUF:
        asked.append(draft.path)
        return draft

    monkeypatch.setattr(opening, "cheaper", cheaper)
    with serving(babbler, "sglang") as stand_in:
        async with remote_runtime(stand_in.url, tiny_model, convert_drafts=True) as runtime:
            placement = runtime.placement
            first, second = [await ask(runtime, max_tokens=2) for _ in range(2)]
    assert asked == [tiny_model]
    assert placement.startswith("draft 15/31 layers on a GPU")
    assert first.notices == (
        f"{tiny_model.name}: the GPU has no room for 31 layers, so 15 are placed there: "
        "unable to allocate CUDA0 buffer",
    )
    assert second.notices == ()
