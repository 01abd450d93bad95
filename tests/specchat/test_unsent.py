from pathlib import Path

import pytest

from specchat import locations
from specchat.unsent import keep_unsent, take_unsent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))


def test_what_was_typed_comes_back_once() -> None:
    keep_unsent("Xin chào,\n\n  thế giới")
    assert take_unsent() == "Xin chào,\n\n  thế giới"
    assert take_unsent() == ""


def test_a_file_that_cannot_be_read_is_nothing() -> None:
    locations.state_dir().mkdir(parents=True)
    (locations.state_dir() / "unsent.txt").write_bytes(b"\xff\xfe")
    assert take_unsent() == ""
