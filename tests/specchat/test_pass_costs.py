import json
from pathlib import Path

import pytest

from specchat.pass_costs import CostStore
from specengine.control.costs import PassCosts
from specengine.llama.library import LLAMA_CPP_PYTHON_VERSION


def model(folder: Path, name: str, size: int = 10) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    return path


def test_costs_come_back_for_the_same_model_and_threads(tmp_path: Path) -> None:
    target, draft = model(tmp_path, "t.gguf"), model(tmp_path, "d.gguf")
    store = CostStore(tmp_path / "costs.json", n_threads=2)
    store.save([target], {"t.gguf": PassCosts({1: 0.1, 5: 0.2})})
    assert store.load([target, draft]) == {"t.gguf": {1: 0.1, 5: 0.2}}
    assert CostStore(tmp_path / "costs.json", n_threads=1).load([target]) == {}


def test_each_place_of_a_model_has_costs_of_its_own(tmp_path: Path) -> None:
    target, file = model(tmp_path, "t.gguf"), tmp_path / "costs.json"
    store = CostStore(file, n_threads=2)
    on_gpu = "t.gguf 12 on CUDA0 NVIDIA H200"
    store.save([target], {on_gpu: PassCosts({1: 0.1})})
    assert store.load([target]) == {on_gpu: {1: 0.1}}
    store.save([target], {"t.gguf": PassCosts({1: 0.9}), "t.gguf2": PassCosts({1: 5})})
    assert store.load([target]) == {on_gpu: {1: 0.1}, "t.gguf": {1: 0.9}}
    on_cpu = f"t.gguf 10 2 {LLAMA_CPP_PYTHON_VERSION}"
    assert set(json.loads(file.read_text())) == {on_cpu, f"{on_cpu} 12 on CUDA0 NVIDIA H200"}


def test_another_file_of_the_same_name_is_measured_anew(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.json", n_threads=None)
    store.save([model(tmp_path, "t.gguf")], {"t.gguf": PassCosts({1: 0.1})})
    assert store.load([model(tmp_path, "t.gguf", size=11)]) == {}


@pytest.mark.parametrize(
    "costs", ['"fast"', "0", "-1", "NaN", "1e300", '1}, "u": {"0": 1'], ids=str
)
def test_a_damaged_file_is_measured_anew_and_replaced(tmp_path: Path, costs: str) -> None:
    file = tmp_path / "costs.json"
    file.write_text(f'{{"t.gguf 10 auto {LLAMA_CPP_PYTHON_VERSION}": {{"1": {costs}}}}}')
    target = model(tmp_path, "t.gguf")
    store = CostStore(file, n_threads=None)
    assert store.load([target]) == {}
    store.save([target], {"t.gguf": PassCosts({1: 0.1})})
    assert store.load([target]) == {"t.gguf": {1: 0.1}}


def test_a_model_that_was_deleted_meanwhile_is_no_error(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.json", n_threads=None)
    store.save([tmp_path / "gone.gguf"], {"gone.gguf": PassCosts({1: 0.1})})
    assert not (tmp_path / "costs.json").exists()
