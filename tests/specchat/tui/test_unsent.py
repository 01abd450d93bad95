"""What is typed and not sent outlives the program."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specchat.tui.widgets.prompt import Prompt


async def leave(services: Services, typed: str) -> int | None:
    """The exit code of a program that is left with something typed."""
    app = SpecchatApp(services)
    async with app.run_test() as pilot:
        app.screen.query_one(Prompt).fill(typed)
        await pilot.press("ctrl+q")
    return app.return_code


@pytest.mark.parametrize("typed", ["half a thought", "two\nlines"])
async def test_unsent_text_is_kept_and_comes_back(services: Services, typed: str) -> None:
    kept: list[str] = []
    await leave(replace(services, keep_unsent=kept.append), typed)
    assert kept == [typed]
    again = SpecchatApp(replace(services, unsent=kept[0]))
    async with again.run_test():
        assert again.screen.query_one(Prompt).message == typed


async def test_an_empty_prompt_keeps_nothing(services: Services) -> None:
    kept: list[str] = []
    await leave(replace(services, keep_unsent=kept.append), "")
    assert kept == []


async def test_unsent_text_that_cannot_be_kept_is_not_lost_without_a_word(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def full(text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert await leave(replace(services, keep_unsent=full), "half a thought") == 1
    [file] = tmp_path.glob("specchat-*.md")
    assert file.read_text(encoding="utf-8") == "## Typed and not sent\n\nhalf a thought\n"
