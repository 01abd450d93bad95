"""The engine with heads of random weights beside SmolLM2: the text is the target's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import pytest

from specengine.core.errors import ModelFileError
from specengine.llama.model import LlamaModel
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.rules import make_rule
from specengine.sampling import SamplingParams
from support.block_heads import BLOCK, random_block_head
from support.eagle3_heads import random_head
from support.head_files import RandomHead, write_head
from support.pair_answers import GREEDY, QUESTION, alone, cancelled, chat, run
from support.smollm import N_EMBD, N_VOCAB

pytestmark = pytest.mark.usefixtures("smollm_step")

OPTIONS = LoadOptions(n_ctx=512)


class Kind(NamedTuple):
    """`drafter` is the name of its drafts; asked for `asked` tokens it drafts `longest`."""

    random: Callable[..., RandomHead]
    drafter: str
    asked: int
    longest: int


EAGLE3 = Kind(random_head, "head", asked=5, longest=5)
BLOCKS = Kind(random_block_head, "parallel", asked=16, longest=BLOCK - 1)


@pytest.fixture(scope="module", params=[EAGLE3, BLOCKS], ids=["eagle3", "blocks"])
def kind(request: pytest.FixtureRequest) -> Kind:
    result: Kind = request.param
    return result


@pytest.fixture(scope="module")
def weights(tiny_model: Path, kind: Kind) -> RandomHead:
    """It guesses blindly among a few tokens, which `babble` makes the target say."""
    with LlamaModel(tiny_model, vocab_only=True) as model:
        words = (",", " and", ".", " the", " blue")
        common = sorted({model.vocab.tokenize(word)[0] for word in words})
    head = kind.random(N_EMBD, N_VOCAB, n_draft_vocab=len(common))
    head.tensors["d2t"] = np.array(common, dtype=np.int64)
    return head


@pytest.fixture(scope="module")
def pair(
    tiny_model: Path, weights: RandomHead, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    path = tmp_path_factory.mktemp("head") / "head.gguf"
    write_head(path, weights, tiny_model, quantization=gguf.GGMLQuantizationType.Q8_0)
    pair = Pair(tiny_model, path, method="cascade", options=OPTIONS)
    yield pair
    pair.close()


@pytest.fixture
def babble(weights: RandomHead) -> SamplingParams:
    """Draws with the head's noise from the few tokens that the head knows: some guesses stand."""
    bias = dict.fromkeys(weights.tensors["d2t"].tolist(), 100.0)
    return SamplingParams(temperature=3, seed=11, logit_bias=bias)


def test_two_turns_are_the_targets_own(pair: Pair, kind: Kind) -> None:
    prompt = chat(pair, QUESTION)
    first = run(pair, prompt, draft_length=3)
    assert first.stats.by_drafter[kind.drafter].drafted == first.stats.drafted
    assert first.stats.draft_s > 0
    turn = chat(pair, "And which is the warmest?", *prompt, *first.tokens)
    second = run(pair, turn, draft_length=kind.asked)
    assert second.stats.drafted > 0
    assert len(second.stats.accepted_per_position) == kind.longest
    assert first.tokens == alone(pair, prompt)
    assert second.tokens == alone(pair, turn)


def test_some_of_what_the_head_guesses_stands(pair: Pair, babble: SamplingParams) -> None:
    finished = run(pair, chat(pair, QUESTION), sampling=babble, draft_length=3)
    assert finished.stats.drafted > finished.stats.accepted > 0


def test_the_head_drafts_on_after_a_restored_state(
    pair: Pair, kind: Kind, babble: SamplingParams
) -> None:
    prompt = chat(pair, QUESTION)
    first = run(pair, prompt, draft_length=3)
    turn = chat(pair, "And which is the warmest?", *prompt, *first.tokens)
    saved = pair.context.save(turn)
    live = run(pair, turn, sampling=babble, draft_length=kind.asked)
    pair.forget()
    assert saved is not None
    assert pair.context.restore(saved)
    restored = run(pair, turn, sampling=babble, draft_length=kind.asked)
    assert restored.tokens == live.tokens
    assert restored.stats.accepted_per_position == live.stats.accepted_per_position
    assert restored.stats.drafted > 0


def test_a_sampled_text_is_a_function_of_the_seed(pair: Pair) -> None:
    sampling = SamplingParams(temperature=0.9, seed=11)
    prompt = chat(pair, "Tell me a story.")
    drafted = run(pair, prompt, sampling=sampling, draft_length=3)
    assert drafted.stats.drafted > 0
    assert drafted.tokens == alone(pair, prompt, sampling=sampling)


def test_a_cancelled_answer_leaves_everything_in_order(pair: Pair) -> None:
    assert cancelled(pair).reason == "cancelled"
    prompt = chat(pair, QUESTION)
    assert run(pair, prompt, draft_length=3).tokens == alone(pair, prompt)


@pytest.mark.parametrize("kind", [EAGLE3], ids=["eagle3"], indirect=True)
def test_calibration_prices_the_head_for_the_controller(pair: Pair) -> None:
    pair.calibrate()
    head, target = pair.costs["head.gguf"], pair.costs[pair.files[0].name]
    assert 0 < head.seconds(1) < target.seconds(17)
    assert pair.draft_model(GREEDY, make_rule(None, GREEDY)) is not None


@pytest.mark.parametrize("kind", [BLOCKS], ids=["blocks"], indirect=True)
def test_calibration_prices_whole_drafts_for_the_controller(pair: Pair) -> None:
    pair.calibrate()
    assert set(pair.costs["head.gguf"].as_dict()) >= {2, 5, 7}
    target, head = pair.measure_passes(prefix=20, repeats=1)
    assert set(head) == set(range(1, BLOCK))
    assert head[1] < target[17]


@pytest.mark.parametrize("settings", [{"markov": True}, {"selector": True}], ids=str)
def test_a_markov_head_and_candidates_change_nothing(
    tiny_model: Path, tmp_path: Path, settings: dict[str, bool]
) -> None:
    head = random_block_head(N_EMBD, N_VOCAB, n_draft_vocab=200, **settings)  # type: ignore[arg-type]
    path = write_head(tmp_path / "head.gguf", head, tiny_model)
    pair = Pair(tiny_model, path, method="model", options=OPTIONS)
    try:
        for sampling in (GREEDY, SamplingParams(temperature=1, seed=3)):
            prompt = chat(pair, QUESTION)
            drafted = run(pair, prompt, sampling=sampling, draft_length=4)
            assert drafted.stats.drafted >= 4
            assert drafted.tokens == alone(pair, prompt, sampling=sampling)
    finally:
        pair.close()


@pytest.mark.parametrize(
    ("kind", "flaws"),
    [
        (
            EAGLE3,
            [
                ({"metadata": {"target_hidden_size": 512}}, "reads hidden states of size 512"),
                ({"tensors": {"blk.0.attn_q.weight": None}}, r"cannot load .*attn_q"),
                ({"tensors": {"fc.weight": np.ones((N_EMBD, N_EMBD))}}, r"cannot load .*fc"),
            ],
        ),
        (
            BLOCKS,
            [
                ({"metadata": {"target_layers": [1, 30]}}, "reads layer 30 of its target"),
                ({"tensors": {"blk.1.attn_q_norm.weight": None}}, r"cannot load .*attn_q_norm"),
            ],
        ),
    ],
    ids=["eagle3", "blocks"],
    indirect=["kind"],
)
def test_heads_of_other_models_and_broken_files_are_one_line(
    tiny_model: Path, weights: RandomHead, tmp_path: Path, flaws: list[tuple[dict[str, Any], str]]
) -> None:
    path = tmp_path / "head.gguf"

    def load() -> None:
        Pair(tiny_model, path, method="model", options=OPTIONS).close()

    for flaw, cause in flaws:
        write_head(path, weights, tiny_model, **flaw)
        with pytest.raises(ModelFileError, match=cause):
            load()
    path.write_bytes(path.read_bytes()[:-4096])
    with pytest.raises(ModelFileError, match="truncated"):
        load()


def test_a_head_of_nan_costs_its_drafts_only(
    tiny_model: Path, kind: Kind, weights: RandomHead, tmp_path: Path
) -> None:
    nan = np.full(weights.tensors["output_norm.weight"].shape, np.nan)
    path = tmp_path / "head.gguf"
    write_head(path, weights, tiny_model, tensors={"output_norm.weight": nan})
    pair = Pair(tiny_model, path, method="model", options=OPTIONS)
    try:
        prompt = chat(pair, QUESTION)
        finished = run(pair, prompt, draft_length=3, reproducible=False, max_tokens=24, notices=1)
        assert finished.stats.completion_tokens == 24
        [notice] = finished.notices
        assert f"drafter {kind.drafter} failed (the logit of token" in notice
    finally:
        pair.close()
