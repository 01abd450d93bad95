"""Text that is to be edited goes along as a prediction, where a person wants it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.openai_chat.prediction import text_to_edit
from specchat.backends.runtime import Runtime
from specchat.backends.verify_server.pair import RemoteOptions
from specengine.chat.chat_template import Turn
from specengine.core.events import Finished
from specengine.sampling import SamplingParams
from support.chat_stand_in import ChatStandIn, Reply, chat_stand_in, events
from support.remote_chat import ended, remote_runtime

CODE = "def area(width, height):\n    # of a rectangle\n    return width * height\n\narea(3, 4)\n\n"
QUESTION = f"Rename area to size:\n\n```python\n{CODE}```"
ON = RemoteOptions(predicted_outputs=True)


def counted(accepted: int, rejected: int) -> Reply:
    details = {"accepted_prediction_tokens": accepted, "rejected_prediction_tokens": rejected}
    usage = {"prompt_tokens": 30, "completion_tokens": 20, "completion_tokens_details": details}
    last = f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n"
    return Reply([events("done", done=False) + last.encode()])


async def ask(runtime: Runtime, question: str = QUESTION, **settings: Any) -> Finished:
    options = AnswerOptions(
        sampling=SamplingParams(seed=1), **{"max_tokens": None, "drafting": False, **settings}
    )
    return await ended(runtime, [Turn("user", question)], options)


def predictions(stand_in: ChatStandIn) -> list[str | None]:
    return [r["prediction"]["content"] if "prediction" in r else None for r in stand_in.requests]


async def test_an_edit_is_predicted_and_what_was_accepted_is_shown() -> None:
    with chat_stand_in(counted(18, 3)) as stand_in:
        async with remote_runtime(stand_in.url, remote=ON) as runtime:
            finished = await ask(runtime)
    assert stand_in.requests[0]["prediction"] == {"type": "content", "content": CODE}
    assert (finished.stats.accepted, finished.stats.drafted) == (18, 21)
    assert finished.notices == ("18 predicted tokens were accepted; 3 were rejected, and billed",)


@pytest.mark.parametrize(
    ("remote", "settings"),
    [(RemoteOptions(), {}), (ON, {"max_tokens": 50})],
    ids=["nobody wants it", "beside settings that forbid it"],
)
async def test_nothing_is_predicted_where(remote: RemoteOptions, settings: dict[str, Any]) -> None:
    with chat_stand_in(counted(0, 0)) as stand_in:
        async with remote_runtime(stand_in.url, remote=remote) as runtime:
            finished = await ask(runtime, **settings)
    assert predictions(stand_in) == [None]
    assert finished.notices == ()


async def test_a_server_that_makes_no_use_of_it_gets_it_once() -> None:
    with chat_stand_in(Reply([events("a")]), Reply([events("b")])) as stand_in:
        async with remote_runtime(stand_in.url, remote=ON) as runtime:
            await ask(runtime)
            await ask(runtime)
    assert predictions(stand_in) == [CODE, None]


@pytest.mark.parametrize("n_busy", [0, 3])
async def test_a_model_that_refuses_it_is_asked_without(n_busy: int) -> None:
    busy = [Reply([b"{}"], 429, {"Retry-After": "0"})] * n_busy
    refusal = Reply([b'{"error": {"message": "prediction is not supported"}}'], 400)
    with chat_stand_in(*busy, refusal, Reply([events("ok")])) as stand_in:
        async with remote_runtime(stand_in.url, remote=ON) as runtime:
            finished = await ask(runtime)
    assert (finished.text, finished.error) == ("ok", None)
    assert predictions(stand_in) == [*[CODE] * n_busy, CODE, None]


PROSE = "It is a truth that is known to all. " * 12


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([("user", QUESTION)], CODE),
        ([("user", f"Fix this.\n\n{PROSE}")], PROSE.strip()),
        ([("user", "Why is the sky blue?")], None),
        ([("user", "Why?\n\nSay it in two lines.")], None),
        ([("user", "Write it."), ("assistant", f"```\n{CODE}```"), ("user", "Rename it.")], CODE),
        ([("user", f"```\n{CODE}```"), ("assistant", "Nice."), ("user", "Thanks.")], None),
        ([("system", "Be brief."), ("user", f"~~~\n{CODE}~~~\nand\n```\nx = 1\n```")], CODE),
        ([], None),
    ],
)
def test_what_is_to_be_edited(turns: list[tuple[Any, str]], expected: str | None) -> None:
    assert text_to_edit([Turn(role, text) for role, text in turns]) == expected
