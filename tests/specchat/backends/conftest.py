from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.config import locations
from support.verify_server import VerifyServer, running_server

MODELS_DIR = locations.models_dir()


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[VerifyServer]:
    with running_server(tiny_model) as running:
        yield running


@pytest.fixture
def own_tiny(smollm_step: int, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of one's own with the embedded default, whose step of widths is known."""
    monkeypatch.setenv("SPECCHAT_MODELS_DIR", str(MODELS_DIR))
    monkeypatch.setattr("specengine.load.pair.measure_width_step", lambda context: smollm_step)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of a new user; the vocabulary is fetched anew in each module only."""
    folder = tmp_path_factory.getbasetemp() / "remote-home"
    monkeypatch.setenv("SPECCHAT_HOME", str(folder))
    monkeypatch.delenv("SPECCHAT_KEY", raising=False)
    return folder
