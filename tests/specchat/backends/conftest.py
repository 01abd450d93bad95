from collections.abc import Iterator
from pathlib import Path

import pytest

from support.verify_server import VerifyServer, running_server


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[VerifyServer]:
    with running_server(tiny_model) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of a new user; the vocabulary is fetched anew in each module only."""
    folder = tmp_path_factory.getbasetemp() / "remote-home"
    monkeypatch.setenv("SPECCHAT_HOME", str(folder))
    monkeypatch.delenv("SPECCHAT_KEY", raising=False)
    return folder
