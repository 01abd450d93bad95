from __future__ import annotations

import os
from pathlib import Path

import pytest

from specengine.llama import probe
from specengine.load.state_key import state_key


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(range(256)) * 16_384)  # 4 MiB
    os.utime(file, ns=(1, 1))
    return file


def test_a_key_is_that_of_the_same_file_with_the_same_parameters(model: Path) -> None:
    assert state_key(model, "n_ctx 64") == state_key(model, "n_ctx 64")
    assert state_key(model, "n_ctx 64") != state_key(model, "n_ctx 65")


@pytest.mark.parametrize("place", [0, 2 * 2**20, 3 * 2**20])
def test_other_weights_of_the_same_size_and_age_have_another_key(model: Path, place: int) -> None:
    before = state_key(model, "")
    with model.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff")
    os.utime(model, ns=(1, 1))
    assert state_key(model, "") != before


def test_another_time_and_another_library_have_another_key(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_key(model, "")
    os.utime(model, ns=(1, 2))
    touched = state_key(model, "")
    assert touched != before
    monkeypatch.setattr(probe, "library_folder", lambda: model.parent)
    assert state_key(model, "") != touched
