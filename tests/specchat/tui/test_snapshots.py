"""How the screen looks. After a wanted change: `pytest --snapshot-update`, and look at the SVG."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from specchat.backends.runtime import Runtime
from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specchat.tui.widgets.prompt import Prompt
from support.fake_runtime import FakeRuntime, Script

ANSWER = '''\
Here is a **linked list** reversed *in place*; `head` walks it once:

```python
def reverse(head: Node | None) -> Node | None:
    """Return the reversed list."""
    previous = None
    while head is not None:
        head.next, previous, head = previous, head, head.next
    return previous  # the new head
```

1. Each link is turned around.
2. Nothing is copied:
   - no second list
   - no recursion

| step | previous | head |
|------|----------|------|
| 0 | None | 1 → 2 |

<think>Tags are shown</think> as they come, see [the docs](https://docs.python.org).
'''

Snapshot = Callable[..., bool]


def before(*keys: str, question: str = "") -> Callable[[Pilot[None]], Awaitable[None]]:
    """Asks, presses, and lets everything come to rest."""

    async def run(pilot: Pilot[None]) -> None:
        prompt = pilot.app.screen_stack[0].query_one(Prompt)
        prompt.cursor_blink = False
        await pilot.pause()
        if question:
            prompt.text = question
            await pilot.press("enter")
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        for field in pilot.app.screen.query(Input):
            field.cursor_blink = False
        for _ in range(10):
            await pilot.pause()

    return run


@pytest.mark.parametrize("size", [(90, 40), (40, 12)], ids=["wide", "small"])
def test_an_answer(snap_compare: Snapshot, services: Services, size: tuple[int, int]) -> None:
    runtime = cast(Runtime, FakeRuntime([Script([ANSWER])]))
    app = SpecchatApp(replace(services, runtime=runtime))
    ask = before(question="Reverse a linked list in Python, please.")
    assert snap_compare(app, terminal_size=size, run_before=ask)


@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        pytest.param([], {}, id="empty"),
        pytest.param([], {"profile": None}, id="first_run"),
        pytest.param(["ctrl+t"], {}, id="models"),
        pytest.param(["ctrl+p"], {}, id="palette"),
        pytest.param([], {"theme": "specchat-light"}, id="light"),
    ],
)
def test_the_screen(
    snap_compare: Snapshot, services: Services, keys: list[str], changes: dict[str, Any]
) -> None:
    profiles = {name: services.registry.profiles[name] for name in ("tiny", "laptop")}
    registry = replace(services.registry, profiles=profiles)
    app = SpecchatApp(replace(services, registry=registry, **changes))
    assert snap_compare(app, terminal_size=(80, 26), run_before=before(*keys))
