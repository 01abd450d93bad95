"""The program that measures what specchat takes outside llama.cpp: its model and its figures."""

from contextlib import closing
from pathlib import Path

import pytest

import own_time
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair


@pytest.mark.parametrize("name", ["greedy", "sampled"])
def test_its_model_goes_round_and_lookup_drafts_it_whole(tmp_path: Path, name: str) -> None:
    own_time.write_model(tmp_path / "model.gguf", n_vocab=5000)
    options = LoadOptions(n_ctx=512)
    with closing(Pair(tmp_path / "model.gguf", method="lookup", options=options)) as pair:
        sampling = own_time.SAMPLINGS[name]
        plain = own_time.answer(pair, sampling, drafting=False, tokens=40)
        drafted = own_time.answer(pair, sampling, drafting=True, tokens=40)
    went_round = [258 + (n % own_time.CYCLE) for n in range(40)]
    assert list(plain.tokens) == list(drafted.tokens) == went_round
    assert drafted.stats.acceptance_rate == 1
    assert own_time.own_ms(plain, drafting=False) > 0
    assert own_time.own_ms(drafted, drafting=True) > 0
