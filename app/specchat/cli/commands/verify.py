"""`specchat verify`: whether drafting changes the text, with these models, on this machine."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import textwrap
from collections.abc import Callable
from typing import Any

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn

from specchat.backends.runtime import Runtime
from specchat.cli.event_progress import EventProgress
from specchat.cli.flags import chosen, runtime_of
from specchat.cli.options import model_options
from specchat.cli.progress_bar import progress_bar
from specchat.config.log import log_to_file
from specchat.doctor.certificate import QUESTIONS, Certificate, certify, encode_question
from specchat.errors import SpecchatError
from specchat.models.registry import Profile
from specchat.printable import one_line
from specchat.wire.address import is_url
from specengine.checks.verification import Check, Plan, verify
from specengine.core.errors import CancelledError
from specengine.load.pair import Pair

_INDENT = 19
_WIDEST = 120


@click.command()
@click.argument("questions", metavar="[QUESTION]...", nargs=-1)
@model_options
@click.option(
    "--max-tokens",
    type=click.IntRange(min=8),
    default=48,
    show_default=True,
    help="Longest answer, in tokens.",
)
@click.option(
    "--draws",
    type=click.IntRange(min=100),
    default=4000,
    show_default=True,
    help="Texts drawn at each position of the sampling check.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32), help="Seed of the sampling check; default: random."
)
@click.option("--json", "as_json", is_flag=True, help="Print the certificate as one JSON object.")
def command(
    questions: tuple[str, ...],
    max_tokens: int,
    draws: int,
    seed: int | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Check that drafting does not change the target's text, and print a certificate.

    The target answers each QUESTION (by default three built-in ones) alone and with drafts.
    Exits with 1 if a check fails.
    """
    log_to_file()
    settings, registry, profile = chosen(flags)
    if is_url(profile.target):
        raise SpecchatError(
            f"{profile.target} is on a server: run specchat verify on the machine that runs the "
            "target"
        )
    seed = secrets.randbits(32) if seed is None else seed
    asked = questions or QUESTIONS

    def check(pair: Pair, bar: Progress) -> Certificate:
        task = bar.add_task("", total=None)

        def show(name: str, done: int, total: int) -> None:
            bar.start()
            bar.update(task, description=f"checking {name}", completed=done, total=total or None)

        prompts = tuple(encode_question(pair, question, profile.system) for question in asked)
        plan = Plan(prompts, seed, max_tokens=max_tokens, draws=draws)
        results = []
        for result in verify(pair, plan, show):
            results.append(result)
            if not as_json:
                bar.stop()
                _show(result)
        return certify(
            pair,
            results,
            seed=seed,
            max_tokens=max_tokens,
            questions=asked,
            threads=settings.threads,
        )

    certificate = asyncio.run(_run(runtime_of(settings, registry), profile, check))
    if as_json:
        click.echo(certificate.model_dump_json(indent=1))
    else:
        _sign(certificate)
    return 0 if certificate.passed else 1


async def _run(
    runtime: Runtime, profile: Profile, check: Callable[[Pair, Progress], Certificate]
) -> Certificate:
    try:
        with EventProgress() as loading:
            await runtime.load(profile, loading.update)
        for notice in await runtime.run(lambda pair: pair.notices):
            click.echo(f"specchat: {one_line(notice)}", err=True)
        with progress_bar(BarColumn(), TaskProgressColumn()) as bar:
            return await runtime.run(lambda pair: check(pair, bar))
    except CancelledError as error:
        raise KeyboardInterrupt from error
    finally:
        await runtime.close()


def _show(result: Check) -> None:
    word = click.style("ok  ", fg="green") if result.passed else click.style("FAIL", fg="red")
    width = min(shutil.get_terminal_size().columns, _WIDEST) - _INDENT
    detail = textwrap.fill(result.detail, width).replace("\n", "\n" + " " * _INDENT)
    click.echo(f"{word} {result.name:<13} {detail}")


def _sign(certificate: Certificate) -> None:
    machine = certificate.machine
    for role, model in (("target", certificate.target), ("draft", certificate.draft)):
        if model is not None:
            click.echo(f"{role}: {model.file}, {model.quantization}, sha256 {model.sha256[:16]}…")
    click.echo(
        f"on {machine.cpu}, {machine.threads} threads, llama-cpp-python "
        f"{machine.llama_cpp_python}; seed {certificate.seed}"
    )
    failed = [check.name for check in certificate.checks if not check.passed]
    if failed:
        click.echo(f"NOT certified: {', '.join(failed)} failed")
    else:
        click.echo(f"certified {certificate.made_at:%Y-%m-%d}: the text is the target's own")
