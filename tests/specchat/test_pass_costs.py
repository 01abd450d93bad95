from pathlib import Path

from specchat.pass_costs import CostStore
from specengine.costs import PassCosts


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


def test_another_file_of_the_same_name_is_measured_anew(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.json", n_threads=None)
    store.save([model(tmp_path, "t.gguf")], {"t.gguf": PassCosts({1: 0.1})})
    assert store.load([model(tmp_path, "t.gguf", size=11)]) == {}


def test_a_damaged_file_is_measured_anew_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text('{"t": {"1": "fast"}}')
    target = model(tmp_path, "t.gguf")
    store = CostStore(file, n_threads=None)
    assert store.load([target]) == {}
    store.save([target], {"t.gguf": PassCosts({1: 0.1})})
    assert store.load([target]) == {"t.gguf": {1: 0.1}}
