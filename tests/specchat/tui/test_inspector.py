"""Looking inside an answer: the panel of rounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from textual.widgets import OptionList, Static

from specchat.backends.backend import Event
from specchat.tui.screens.inspector import (
    InspectorScreen,
    Reply,
    decisions,
    describe,
    visible,
)
from specengine.core.events import Chunk
from specengine.core.statistics import Statistics
from specengine.loop.inspection import Entry, InspectedRound, InspectedToken
from support.chat_app import Chat, StartChat
from support.fake_runtime import FakeRuntime, Script

STOOD = InspectedToken(7, " the", 0.8, 0.6, 0.41, 0.75, accepted=True)
FELL = InspectedToken(8, "\ncat", 0.5, 0.1, 0.93, 0.2, accepted=False)
UNSEEN = InspectedToken(9, "[bold]", 1.0, None, None, None, accepted=False)
REJECTED = InspectedRound(
    position=12,
    rule="token",
    draft=(STOOD, FELL, UNSEEN),
    token=Entry(5, " dog", 0.9),
    is_correction=True,
    from_residual=True,
    source=(Entry(5, " dog", 0.9), Entry(6, "[/bold]\x1b[31m", 0.1)),
)
PROMPT = InspectedRound(
    11, "token", (), Entry(3, "Well", 0.02), False, False, (Entry(4, "So", 0.7),)
)


@dataclass
class InspectedRuntime(FakeRuntime):
    """Reports a round before each piece of text."""

    rounds: list[InspectedRound] = field(default_factory=list)

    async def _play(self, script: Script) -> AsyncIterator[Event]:
        rounds = iter(self.rounds)
        async for event in super()._play(script):
            if isinstance(event, Chunk):
                yield next(rounds)
            yield event


def lines(chat: Chat) -> list[str]:
    return [str(option.prompt) for option in chat.app.screen.query_one(OptionList).options]


def shown(chat: Chat) -> str:
    return str(chat.app.screen.query_one("#round", Static).content)


async def test_the_rounds_of_a_reply_open_with_one_key(start_chat: StartChat) -> None:
    runtime = InspectedRuntime([Script(["Well", " the dog"])], rounds=[PROMPT, REJECTED])
    async with start_chat(runtime=runtime) as chat:
        await chat.say("Hello")
        await chat.press("ctrl+l")
        assert isinstance(chat.app.screen, InspectorScreen)
        assert lines(chat) == [
            "   1  Well",
            "   2  ·the ⏎cat [bold] ·dog  1 of 3",
        ]
        assert "Nothing was drafted" in shown(chat)
        await chat.press("down")
        assert "correction ·dog" in shown(chat)
        await chat.press("escape")
        assert chat.prompt.has_focus


async def test_other_replies_are_left_and_right(start_chat: StartChat) -> None:
    runtime = InspectedRuntime([Script(["One"]), Script(["Two"])], rounds=[PROMPT])
    async with start_chat(runtime=runtime) as chat:
        await chat.say("first")
        await chat.say("second")
        await chat.press("ctrl+l")
        box = chat.app.screen.query_one("#box")
        titles = []
        for key in ("left", "left", "right", "right"):
            titles.append(str(box.border_title))
            await chat.press(key)
        assert titles == [f"Inside reply {n} of 2" for n in (2, 1, 1, 2)]
        assert str(chat.app.screen.query_one("#reply", Static).content) == "Two"


async def test_without_a_reply_it_says_so(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.press("ctrl+l")
        assert not isinstance(chat.app.screen, InspectorScreen)
        assert "there is none yet" in str([toast.message for toast in chat.app._notifications])


async def test_rounds_that_come_while_one_looks_do_no_harm(start_chat: StartChat) -> None:
    script = Script(["Well", " the dog"], held=True)
    runtime = InspectedRuntime([script], rounds=[PROMPT, REJECTED])
    async with start_chat(runtime=runtime) as chat:
        await chat.say("Hello")
        await chat.press("ctrl+l")
        assert len(lines(chat)) == 1
        runtime.release.set()
        await chat.settle()
        await chat.pilot.press("down", "up", "pagedown", "pageup")
        assert len(lines(chat)) == 1


def test_a_round_in_full() -> None:
    text = describe(REJECTED).plain.splitlines()
    assert text[0] == "A draft token is accepted if its draw is below min(1, p/q)."
    assert text[2].split() == ["drafted", "q", "p", "p/q", "≤", "1", "draw", "limit"]
    assert text[3].split() == ["·the", "0.800", "0.600", "0.750", "0.410", "0.750", "accepted"]
    assert text[4].split() == ["⏎cat", "0.500", "0.100", "0.200", "0.930", "0.200", "rejected"]
    assert text[5].split() == ["[bold]", "1.000", "not", "evaluated"]
    assert text[7] == "correction ·dog, from the residual, the part of p beyond q:"
    assert text[8].split() == ["·dog", "0.900", "█" * 18]
    assert text[9].split() == ["[/bold]␛[31m", "0.100", "██"]


def test_a_token_that_is_not_among_the_most_probable_is_shown_too() -> None:
    text = describe(PROMPT).plain.splitlines()
    assert text[-1].split() == ["Well", "0.020", "█"]
    assert "bonus Well, from p:" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "∅"),
        (" a\tb\n", "·a⇥b⏎"),
        ("\x1b]52;c;x\x07", "␛]52;c;x␇"),
        ("x" * 40, "x" * 16 + "…"),
        ("漢" * 20, "漢" * 8 + "…"),
        ("\u202eabc", "⟨U+202E⟩abc"),
    ],
)
def test_white_space_shows_and_nothing_is_obeyed(text: str, expected: str) -> None:
    assert visible(text) == expected


async def test_markup_in_a_reply_is_text(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        reply = Reply("[red]hello[/red]", [REJECTED])
        await chat.app.push_screen(InspectorScreen([reply]))
        await chat.settle()
        drawn = chat.app.export_screenshot().replace("&#160;", " ")
        assert "[red]hello[/red]" in drawn
        assert "[bold]" in drawn


def test_it_says_who_drafted_and_what_stood() -> None:
    stats = Statistics()
    for drafted, accepted, drafter in (
        (4, 3, "lookup"),
        (2, 2, "0.5b"),
        (4, 0, "lookup"),
        (0, 0, None),
    ):
        stats.count_round(drafted, accepted, drafter)
    assert decisions(stats.model_dump()) == (
        "rounds: lookup 2 (3 of 8 accepted) · 0.5b 1 (2 of 2 accepted) · target alone 1"
    )
    assert decisions({}) == ""  # an answer under way
