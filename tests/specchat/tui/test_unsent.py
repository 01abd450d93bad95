"""What is typed and not sent outlives the program."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specchat.tui.widgets.prompt import Prompt


@pytest.mark.parametrize("typed", ["half a thought", "two\nlines"])
async def test_unsent_text_is_kept_and_comes_back(services: Services, typed: str) -> None:
    kept: list[str] = []
    app = SpecchatApp(replace(services, keep_unsent=kept.append))
    async with app.run_test() as pilot:
        app.screen.query_one(Prompt).fill(typed)
        await pilot.press("ctrl+q")
    assert kept == [typed]
    again = SpecchatApp(replace(services, unsent=kept[0]))
    async with again.run_test():
        assert again.screen.query_one(Prompt).message == typed


async def test_an_empty_prompt_keeps_nothing(services: Services) -> None:
    kept: list[str] = []
    app = SpecchatApp(replace(services, keep_unsent=kept.append))
    async with app.run_test() as pilot:
        await pilot.press("ctrl+q")
    assert kept == []


async def test_unsent_text_that_cannot_be_kept_is_not_lost_without_a_word(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def full(text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    app = SpecchatApp(replace(services, keep_unsent=full))
    async with app.run_test() as pilot:
        app.screen.query_one(Prompt).fill("half a thought")
        await pilot.press("ctrl+q")
    assert app.return_code == 1
    [file] = tmp_path.glob("specchat-*.md")
    assert file.read_text(encoding="utf-8") == "## Typed and not sent\n\nhalf a thought\n"
