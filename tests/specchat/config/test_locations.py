"""Folders: the platform's own, unless the environment names others."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from specchat.config import locations


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPECCHAT_HOME", raising=False)
    monkeypatch.delenv("SPECCHAT_MODELS_DIR", raising=False)


def test_the_platform_says_where() -> None:
    assert locations.config_dir() == platformdirs.user_config_path("specchat", appauthor=False)
    assert locations.state_dir() == platformdirs.user_state_path("specchat", appauthor=False)
    assert locations.models_dir() == locations.data_dir() / "models"


def test_a_home_of_its_own_holds_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    assert locations.settings_file() == tmp_path / "config" / "settings.toml"
    assert locations.database_file() == tmp_path / "data" / "chats.db"
    assert locations.models_dir() == tmp_path / "data" / "models"
    assert locations.log_file() == tmp_path / "state" / "specchat.log"
    assert locations.cache_dir() == tmp_path / "cache"


def test_models_can_live_on_another_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_MODELS_DIR", "~/big")
    assert locations.models_dir() == Path.home() / "big"
    monkeypatch.setenv("SPECCHAT_MODELS_DIR", "relative")
    assert locations.models_dir() == Path.cwd() / "relative"
    monkeypatch.setenv("SPECCHAT_MODELS_DIR", "~no-such-person/big")
    assert locations.models_dir() == Path.cwd() / "~no-such-person/big"
