"""Flags that several commands share; `flags` turns their values into what the engine takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from specengine.core.limits import MAX_DRAFT
from specengine.core.think import Think

F = TypeVar("F", bound=Callable[..., Any])

# The settings' own (a test compares them): importing them would slow every command down.
ON_LOSS = ("wait", "stop", "local")


class Words(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions alone
    """Text of an argument as it was typed: UTF-8 whatever the locale says, or refused, since a
    model would read something else.
    """

    name = "text"

    def convert(
        self, value: str, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:  # Python keeps bytes that it cannot read as surrogates
            try:
                return os.fsencode(value).decode()
            except UnicodeError:
                self.fail("it is not UTF-8: set terminal and locale to UTF-8", param, context)
        return value


class RuleName(click.ParamType):  # type: ignore[type-arg]
    """An acceptance rule of the engine, which is imported where one is given or help is shown."""

    name = "rule"

    def convert(
        self, value: str, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        return self._choice.convert(value, param, context)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._choice.get_metavar(param, ctx)

    @property
    def _choice(self) -> click.Choice[str]:
        from specengine.rules import RULES

        return click.Choice(list(RULES))


class DraftOption(click.Option):
    """Its help names the drafters of the engine, which is imported for that."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from specengine.drafters.registry import named

        names = ", ".join(named())
        self.help = f"Drafter: a model's name, a GGUF file, {names}, none, or auto (what is here)."
        return super().get_help_record(ctx)


WORDS = Words()


key_over_http_option = click.option(
    "--key-over-http",
    is_flag=True,
    default=None,
    help="Send a server's key over plain http too, where others can read it.",
)


def profile_options(command: F) -> F:
    """What to load: a profile, or parts of one."""
    return with_options(
        command,
        click.option(
            "--profile",
            metavar="NAME",
            help="Target and drafter that belong together; `models list` names them.",
        ),
        click.option(
            "--target",
            metavar="MODEL",
            help="Target: a model's name, a GGUF file or a server's address.",
        ),
        click.option(
            "--draft",
            cls=DraftOption,
            metavar="MODEL",
        ),
        click.option(
            "--system",
            type=WORDS,
            metavar="TEXT",
            help="System message; an empty one is sent as such.",
        ),
        click.option("--ctx", type=int, help="Context length in tokens."),
    )


def model_options(command: F) -> F:
    """What to load, and how."""
    return with_options(
        command,
        profile_options,
        click.option("--threads", type=int, help="Threads for llama.cpp."),
        click.option(
            "--gpu-layers",
            type=int,
            metavar="N",
            help="Layers of the target on GPUs; default: as many as fit.",
        ),
        click.option(
            "--draft-gpu-layers", type=int, metavar="N", help="Layers of the draft model on GPUs."
        ),
        click.option("--offline", is_flag=True, default=None, help="Make no network connection."),
    )


def truncation_options(command: F) -> F:
    """Which tokens are drawn from, above temperature 0."""
    return with_options(
        command,
        click.option("--top-k", type=int, help="Keep the k most probable tokens; 0 is off."),
        click.option(
            "--top-p",
            type=float,
            help="Keep the most probable tokens up to a total of p; 1 is off.",
        ),
        click.option(
            "--min-p",
            type=float,
            help="Drop tokens below p times the best one's probability; 0 is off.",
        ),
    )


def answer_options(command: F) -> F:
    """How to sample, draft and end."""
    return with_options(
        command,
        click.option("--temperature", type=float, help="Sampling temperature; 0 is greedy."),
        truncation_options,
        click.option(
            "--repeat-penalty", type=float, help="Divide logits of recent tokens; 1 is off."
        ),
        click.option(
            "--frequency-penalty", type=float, help="Lower logits per occurrence; 0 is off."
        ),
        click.option(
            "--presence-penalty", type=float, help="Lower logits of tokens that occurred; 0 is off."
        ),
        click.option(
            "--logit-bias",
            multiple=True,
            metavar="ID=BIAS",
            help="Add BIAS to the logit of a token; repeatable.",
        ),
        click.option(
            "--grammar",
            type=WORDS,
            metavar="GBNF|LARK|@FILE",
            help="Grammar that the answer must follow.",
        ),
        click.option(
            "--json-schema",
            type=WORDS,
            metavar="JSON|@FILE",
            help="JSON schema that the answer must satisfy.",
        ),
        click.option(
            "--seed", type=int, help="Seed of the sampling: the same seed gives the same text."
        ),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Longest answer, in tokens."),
        click.option(
            "--stop",
            type=WORDS,
            multiple=True,
            metavar="TEXT",
            help="End the answer before this text; repeatable.",
        ),
        click.option(
            "--think",
            type=click.Choice(get_args(Think)),
            help="Whether to think before the answer, or how hard; default: the model's.",
        ),
        click.option("--rule", type=RuleName(), help="Acceptance rule; typical is lossy."),
        click.option(
            "--draft-max", type=click.IntRange(0, MAX_DRAFT), help="Most draft tokens in a round."
        ),
        click.option(
            "--draft-length",
            type=click.IntRange(0, MAX_DRAFT),
            help="Fixed number of draft tokens; default: chosen for each round.",
        ),
        click.option("--no-draft", is_flag=True, help="Answer with the target alone."),
        click.option(
            "--on-loss",
            type=click.Choice(ON_LOSS),
            help="If a remote target is lost: wait, stop, or go on with the draft model.",
        ),
        key_over_http_option,
        click.option(
            "--reproducible",
            is_flag=True,
            help="Keep the text the same bit for bit; needed only with llama.cpp's kernels.",
        ),
    )


def with_options(command: F, *options: Callable[[F], F]) -> F:
    """`command` with these flags, in this order."""
    for option in reversed(options):
        command = option(command)
    return command
