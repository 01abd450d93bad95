import json
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.backends import pass_costs
from specchat.backends.pass_costs import CostStore, KeptCosts
from specengine.cache.costs import PassCosts
from specengine.cache.measurement import Measurement
from specengine.llama.threads import default_threads


def model(folder: Path, name: str, size: int = 10) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    return path


@pytest.fixture(autouse=True)
def build(monkeypatch: pytest.MonkeyPatch) -> None:
    set_build(monkeypatch, "AMX")


def set_build(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(pass_costs, "build_key", lambda: key)


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
    on_cpu = "t.gguf 10 2 AMX"
    assert set(json.loads(file.read_text())) == {on_cpu, f"{on_cpu} 12 on CUDA0 NVIDIA H200"}


def test_another_file_of_the_same_name_is_measured_anew(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.json", n_threads=None)
    store.save([model(tmp_path, "t.gguf")], {"t.gguf": PassCosts({1: 0.1})})
    assert store.load([model(tmp_path, "t.gguf", size=11)]) == {}


def test_unset_threads_are_as_many_as_they_are(tmp_path: Path) -> None:
    target, file = model(tmp_path, "t.gguf"), tmp_path / "costs.json"
    CostStore(file, n_threads=None).save([target], {"t.gguf": PassCosts({1: 0.1})})
    assert CostStore(file, default_threads()).load([target]) == {"t.gguf": {1: 0.1}}
    assert CostStore(file, default_threads() + 1).load([target]) == {}


def test_computers_that_share_a_home_measure_each_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, file = model(tmp_path, "t.gguf"), tmp_path / "costs.json"
    CostStore(file, 2).save([target], {"t.gguf": PassCosts({1: 0.1})})
    set_build(monkeypatch, "another CPU")
    there = CostStore(file, 2)
    assert there.load([target]) == {}
    there.save([target], {"t.gguf": PassCosts({1: 0.9})})
    set_build(monkeypatch, "AMX")
    assert CostStore(file, 2).load([target]) == {"t.gguf": {1: 0.1}}


@pytest.mark.parametrize("costs", ['"fast"', "0", "0.0", "-1", "NaN", "3600", "1e300", "null"])
def test_one_damaged_value_is_measured_anew_and_costs_no_other(tmp_path: Path, costs: str) -> None:
    target, draft = model(tmp_path, "t.gguf"), model(tmp_path, "d.gguf")
    file = tmp_path / "costs.json"
    kept = {
        "t.gguf 10 2 AMX": f'{{"1": {costs}, "5": 0.2}}',
        "t.gguf 10 2 AMX not repacked": f'{{"1": {costs}}}',
        "d.gguf 10 2 AMX": '{"0": 1, "1": 1}',
    }
    entries = [f'"{key}": {{"seconds": {seconds}}}' for key, seconds in kept.items()]
    file.write_text(f'{{"x": {costs}, {", ".join(entries)}}}')
    store = CostStore(file, 2)
    known = {"t.gguf": {5: 0.2}, "d.gguf": {1: 1.0}}
    assert store.load([target, draft]) == known
    store.save([draft], {"d.gguf": PassCosts({1: 2.0})})
    assert store.load([target, draft]) == known | {"d.gguf": {1: 2.0}}


def test_it_is_kept_when_and_how_passes_were_measured_until_they_are_measured_again(
    tmp_path: Path,
) -> None:
    target, file = model(tmp_path, "t 1.gguf"), tmp_path / "costs.json"
    once = Measurement(at=1.8e9, passes=24, spread=0.02, drift=0.5, load=None)
    learned = PassCosts({1: 0.1})
    learned.measured_in = once
    on_gpu = "t 1.gguf 12 on CUDA0 NVIDIA H200"
    CostStore(file, 2).save([target], {"t 1.gguf": learned, on_gpu: PassCosts({1: 0.05})})
    store = CostStore(file, 2)
    assert store.here() == {
        "t 1.gguf": KeptCosts(seconds={1: 0.1}, measured=once),
        on_gpu: KeptCosts(seconds={1: 0.05}),
    }
    assert CostStore(file, 1).here() == {}
    store.save([target], {"t 1.gguf": PassCosts({1: 0.2})})
    assert store.here()["t 1.gguf"] == KeptCosts(seconds={1: 0.2}, measured=once)
    learned.measured_in = later = replace(once, at=1.9e9)
    store.save([target], {"t 1.gguf": learned})
    assert store.here()["t 1.gguf"].measured == later


def test_what_earlier_versions_kept_is_measured_anew(tmp_path: Path) -> None:
    target, file = model(tmp_path, "t.gguf"), tmp_path / "costs.json"
    file.write_text('{"t.gguf 10 2 AMX": {"1": 0.1, "5": 0.2}}')
    store = CostStore(file, 2)
    assert not store.load([target])
    assert not store.here()
    store.save([target], {"t.gguf": PassCosts({1: 0.3})})
    assert store.load([target]) == {"t.gguf": {1: 0.3}}


def test_a_damaged_file_is_measured_anew_and_replaced(tmp_path: Path) -> None:
    target, file = model(tmp_path, "t.gguf"), tmp_path / "costs.json"
    store = CostStore(file, 2)
    for text in ("", "[]", "{", "\xff"):
        file.write_text(text, "latin-1")
        assert store.load([target]) == {}
        store.save([target], {"t.gguf": PassCosts({1: 0.1})})
        assert store.load([target]) == {"t.gguf": {1: 0.1}}


def test_what_no_pass_can_cost_is_not_saved(tmp_path: Path) -> None:
    target, draft = model(tmp_path, "t.gguf"), model(tmp_path, "d.gguf")
    store = CostStore(tmp_path / "costs.json", 2)
    impossible = PassCosts({2: 3600.0, 3: 0.0, 4: float("nan"), 5: float("inf")})
    learned = PassCosts({1: 0.1, **impossible.as_dict()})
    store.save([target, draft], {"t.gguf": learned, "d.gguf": impossible})
    assert store.load([target, draft]) == {"t.gguf": {1: 0.1}}
    store.save([target], {"t.gguf": impossible})
    assert store.load([target]) == {"t.gguf": {1: 0.1}}


def test_a_model_that_was_deleted_meanwhile_is_no_error(tmp_path: Path) -> None:
    gone, present = tmp_path / "gone.gguf", model(tmp_path, "t.gguf")
    store = CostStore(tmp_path / "costs.json", n_threads=None)
    costs = {"gone.gguf": PassCosts({1: 0.1}), "t.gguf": PassCosts({1: 0.2})}
    store.save([gone], costs)
    assert not (tmp_path / "costs.json").exists()
    store.save([gone, present], costs)
    assert store.load([gone, present]) == {"t.gguf": {1: 0.2}}
