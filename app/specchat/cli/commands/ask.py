"""`specchat ask`: one answer to standard output."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from threading import Event
from typing import Any

import click

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.cli.answer_printer import AnswerPrinter
from specchat.cli.event_progress import EventProgress
from specchat.cli.flags import chosen, runtime_of, to_answer_options
from specchat.cli.options import WORDS, answer_options, model_options
from specchat.config.log import log_to_file
from specchat.errors import SpecchatError
from specchat.models.errors import DownloadCancelledError
from specchat.models.registry import Profile
from specchat.printable import one_line
from specengine.chat.chat_template import Turn
from specengine.core.errors import CancelledError
from specengine.core.events import Finished, Progress
from specengine.core.limits import MAX_LOGPROBS
from specengine.loop.inspection import InspectedRound

_INTERRUPTED = 130


@click.command()
@click.argument("prompt", type=WORDS, required=False)
@model_options
@answer_options
@click.option("--raw", is_flag=True, help="Send the prompt as it is, without a chat template.")
@click.option(
    "--logprobs",
    type=click.IntRange(0, MAX_LOGPROBS),
    metavar="N",
    help="Report log-probabilities in the JSON, with N alternatives for each token.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object at the end instead of the text."
)
def command(prompt: str | None, as_json: bool, **flags: Any) -> int:
    """Answer PROMPT; standard input that is not a terminal is appended to it."""
    if flags["logprobs"] is not None and not as_json:
        raise click.UsageError("--logprobs is reported in JSON only: add --json")
    if flags["raw"] and flags["system"] is not None:
        raise click.UsageError("--raw sends no system message: remove --system")
    log_to_file()
    settings, registry, profile = chosen(flags)
    options = to_answer_options(settings, flags, profile)
    question = _question(prompt)

    def asked(loaded: Profile) -> tuple[list[Turn], AnswerOptions]:
        """What is asked of what was loaded: its server may have said more of it."""
        return _turns(loaded, question, options), to_answer_options(settings, flags, loaded)

    runtime = runtime_of(settings, registry)
    with _interruptible(runtime) as interrupted:
        asking = _ask(runtime, profile, asked, interrupted, stream=not as_json)
        finished, profile, options = asyncio.run(asking)
    if as_json:
        click.echo(json.dumps(_to_json(finished, profile, options), ensure_ascii=False))
    elif finished.text and not finished.text.endswith("\n"):
        click.echo()
    for notice in finished.notices:
        click.echo(f"specchat: {one_line(notice)}", err=True)
    if finished.reason == "error":
        raise SpecchatError(finished.error or "the answer failed")
    return _INTERRUPTED if finished.reason == "cancelled" else 0


def _question(prompt: str | None) -> str:
    piped = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    text = piped.decode("utf-8", "replace").strip("\n")
    if text.count("\ufffd") > piped.count("\ufffd".encode()):
        click.echo(
            "specchat: bytes on standard input that are not UTF-8 were replaced by U+FFFD", err=True
        )
    question = "\n\n".join(part for part in (prompt, text) if part)
    if not question.strip():
        raise click.UsageError("there is no prompt: give one as an argument or on standard input")
    return question


def _turns(profile: Profile, question: str, options: AnswerOptions) -> list[Turn]:
    turns = [Turn("user", question)]
    if profile.system is not None and not options.raw:
        turns.insert(0, Turn("system", profile.system))
    return turns


async def _ask(
    runtime: Runtime,
    profile: Profile,
    asked: Callable[[Profile], tuple[list[Turn], AnswerOptions]],
    interrupted: Event,
    *,
    stream: bool,
) -> tuple[Finished, Profile, AnswerOptions]:
    """Load, answer, and write the text as it comes where `stream` says so. With the answer comes
    what was loaded, and what was asked of it.
    """
    finished: Finished | None = None
    printer = AnswerPrinter() if stream else None

    def heed_interrupt() -> None:
        if interrupted.is_set():
            runtime.cancel()  # again: the first time there may have been nothing to cancel yet

    try:
        with EventProgress() as progress:

            def show(event: Progress) -> None:
                heed_interrupt()
                progress.update(event)

            await runtime.load(profile, show)
            if interrupted.is_set():
                raise KeyboardInterrupt
            profile = runtime.profile or profile
            turns, options = asked(profile)
            async for event in runtime.answer(turns, options):
                heed_interrupt()
                if isinstance(event, Progress):
                    progress.update(event)
                    continue
                progress.clear()
                if printer is not None and not isinstance(event, InspectedRound):
                    printer.take(event)
                if isinstance(event, Finished):
                    finished = event
    except (CancelledError, DownloadCancelledError) as error:
        raise KeyboardInterrupt from error  # while loading: there is no answer to keep
    finally:
        await runtime.close()
    assert finished is not None
    return finished, profile, options


@contextmanager
def _interruptible(runtime: Runtime) -> Iterator[Event]:
    """The first Ctrl-C ends the answer and keeps what came; a second one ends the program."""
    interrupted = Event()

    def cancel(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupted.set()
        runtime.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _to_json(finished: Finished, profile: Profile, options: AnswerOptions) -> dict[str, Any]:
    result: dict[str, Any] = {
        "text": finished.text,
        "reasoning": finished.reasoning or None,
        "tokens": list(finished.tokens),
        "finish_reason": finished.reason,
        "seed": options.sampling.seed,
        "profile": profile.name,
        "target": profile.target,
        "drafter": (profile.draft or "none") if options.drafting else "none",
        "rule": finished.rule,
        **finished.stats.model_dump(),
        "notices": list(finished.notices),
        "unverified": finished.unverified and asdict(finished.unverified),
        "replaced": [asdict(version) for version in finished.replaced],
    }
    if finished.error is not None:
        result["error"] = finished.error
    if options.logprobs is not None:
        result["logprobs"] = [asdict(logprobs) for logprobs in finished.logprobs]
    return result
