"""Draws docs/images/chat.svg from a real session: `python docs/images/chat.py`.

Needs the target of the profile `laptop` (`specchat models pull laptop`), which drafts by lookup, as
the controller decides. Greedy, so the text is the same each time; how many tokens a second is this
machine's.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from textual.widgets import TextArea

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.chats import ChatStore
from specchat.config import locations
from specchat.models.registry import load_registry
from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specchat.tui.widgets.message import MessageView
from specengine.sampling import SamplingParams

QUESTION = """\
Give this function type hints and a docstring, and change nothing else:

def reverse(head):
    previous = None
    while head is not None:
        following = head.next
        head.next = previous
        previous = head
        head = following
    return previous"""
SIZE = (88, 38)


async def main() -> None:
    registry = load_registry(locations.registry_file())
    laptop = registry.profile("laptop")
    with tempfile.TemporaryDirectory() as folder:
        services = Services(
            runtime=Runtime(registry),
            registry=registry,
            open_store=lambda: ChatStore(Path(folder) / "chats.db"),
            options=lambda _: AnswerOptions(SamplingParams(temperature=0)),
            profile=laptop,
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
    asyncio.run(main())
