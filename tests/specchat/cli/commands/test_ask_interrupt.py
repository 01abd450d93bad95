"""Ctrl-C ends `specchat ask` whenever it comes, also where there is nothing to cancel just then."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import click
import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Event
from specchat.cli.commands import ask
from specchat.models.registry import Profile
from specengine.chat.chat_template import Turn
from specengine.core.events import Progress
from support.fake_runtime import FakeRuntime, Script

pytestmark = pytest.mark.timeout(20)


class InterruptedRuntime(FakeRuntime):
    """Gets Ctrl-C at one `moment`; a cancel from before a step is forgotten when it starts."""

    moment: str

    async def load(self, profile: Profile, on_event: Callable[[Progress], None]) -> None:
        self._reach("before loading")
        await super().load(profile, on_event)
        self._reach("after loading")

    async def answer(self, turns: Sequence[Turn], options: AnswerOptions) -> AsyncIterator[Event]:
        self._reach("before answering")
        async for event in super().answer(turns, options):
            yield event

    def _reach(self, moment: str) -> None:
        if moment == self.moment:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InterruptedRuntime:
    """Its answer would never end by itself."""
    runtime = InterruptedRuntime([Script(["Once ", "upon "], held=True)])
    monkeypatch.setattr(ask, "runtime_of", lambda *_: runtime)
    monkeypatch.setattr(ask, "log_to_file", lambda: None)
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))
    return runtime


@pytest.mark.parametrize("moment", ["before loading", "after loading"])
def test_before_there_is_an_answer(runtime: InterruptedRuntime, moment: str) -> None:
    runtime.moment = moment
    with pytest.raises(click.Abort):
        ask.command.main(["hi"], standalone_mode=False)
    assert runtime.asked == []
    assert runtime.closed


def test_just_before_the_answer_starts(runtime: InterruptedRuntime) -> None:
    runtime.moment = "before answering"
    assert ask.command.main(["hi"], standalone_mode=False) == 130
