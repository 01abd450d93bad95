"""What is typed and not sent outlives the program."""

from dataclasses import replace

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
