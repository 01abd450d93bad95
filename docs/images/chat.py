"""Draws docs/images/chat.svg from a real session: `python docs/images/chat.py [PROFILE]`.

Needs the profile's models on this computer (`specchat models pull laptop`). Greedy, so the text is
the same each time; the figures in the status line are this machine's.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from textual.widgets import TextArea

from specchat import locations
from specchat.models.registry import load_registry
from specchat.runtime import AnswerOptions, Runtime
from specchat.storage import ChatStore
from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specchat.tui.widgets.message import MessageView
from specengine.sampling import SamplingParams

QUESTION = "Reverse a singly linked list in Python. Explain the code in three short points."
SIZE = (88, 42)


async def main(profile: str) -> None:
    registry = load_registry(locations.registry_file())
    with tempfile.TemporaryDirectory() as folder:
        services = Services(
            runtime=Runtime(registry),
            registry=registry,
            open_store=lambda: ChatStore(Path(folder) / "chats.db"),
            options=lambda _: AnswerOptions(sampling=SamplingParams(temperature=0)),
            profile=registry.profile(profile),
        )
        app = SpecchatApp(services)
        async with app.run_test(size=SIZE) as pilot:
            app.screen.query_one(TextArea).text = QUESTION
            await pilot.press("enter")
            answer = None
            while answer is None or answer.entry.status == "streaming":
                await pilot.pause(0.2)
                views = list(app.screen.query(MessageView))
                answer = views[1] if len(views) == 2 else None
            await pilot.pause()
            picture = Path(__file__).with_suffix(".svg")
            picture.write_text(app.export_screenshot(title="specchat"), encoding="utf-8")
            await pilot.press("ctrl+q")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2] or ["laptop"]))
