from __future__ import annotations

from pathlib import Path

import pytest

from support.programs import Programs


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """None yet, and no others are found."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    return Programs(folder)
