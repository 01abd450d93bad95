"""Fixtures for tests of the app."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.backends import trials
from specchat.wire.network import NetworkThread


@pytest.fixture(autouse=True, scope="session")
def _each_model_is_tried_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever folder a test takes for its own: a trial takes a second."""
    folder = tmp_path_factory.mktemp("trials")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "remembered_in", lambda: folder)
        yield


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a new user, which holds everything."""
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def network() -> Iterator[NetworkThread]:
    thread = NetworkThread()
    yield thread
    thread.close()
