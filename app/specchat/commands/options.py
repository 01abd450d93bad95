"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from specchat.runtime import AnswerOptions
from specchat.settings import Settings, load_settings
from specengine.errors import GrammarError, SamplingError
from specengine.json_schema import json_schema_to_gbnf
from specengine.pair import MAX_DRAFT
from specengine.rules import RULES
from specengine.sampling import SamplingParams

F = TypeVar("F", bound=Callable[..., Any])

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "frequency_penalty")
SAMPLING_FLAGS = (*_SAMPLING, "presence_penalty", "seed")


def model_options(command: F) -> F:
    """What to load: a profile, or parts of one."""
    return _options(
        command,
        click.option("--profile", metavar="NAME", help="Target and drafter that belong together."),
        click.option(
            "--target", metavar="MODEL", help="Target: a registry name, a GGUF file or an address."
        ),
        click.option(
            "--draft", metavar="MODEL", help="Drafter: a registry name, a GGUF file, lookup, none."
        ),
        click.option("--system", metavar="TEXT", help="System message; an empty one is sent too."),
        click.option("--threads", type=int, help="Threads for llama.cpp."),
        click.option("--ctx", type=int, help="Context length in tokens."),
        click.option("--offline", is_flag=True, default=None, help="Connect to nothing."),
    )


def answer_options(command: F) -> F:
    """How to sample, draft and end."""
    return _options(
        command,
        click.option("--temperature", type=float, help="0 is greedy."),
        click.option("--top-k", type=int, help="Keep the k most probable tokens; 0 is off."),
        click.option("--top-p", type=float, help="Keep the most probable mass p; 1 is off."),
        click.option("--min-p", type=float, help="Drop below p of the most probable; 0 is off."),
        click.option("--repeat-penalty", type=float, help="1 is off."),
        click.option("--frequency-penalty", type=float, help="0 is off."),
        click.option("--presence-penalty", type=float, help="0 is off."),
        click.option(
            "--logit-bias", multiple=True, metavar="ID=BIAS", help="Add to a token's logit."
        ),
        click.option("--grammar", metavar="GBNF|@FILE", help="The answer must follow it."),
        click.option("--json-schema", metavar="JSON|@FILE", help="The answer must satisfy it."),
        click.option("--seed", type=int, help="Same seed, same text."),
        click.option("--max-tokens", type=click.IntRange(min=1), help="End after so many."),
        click.option("--stop", multiple=True, metavar="TEXT", help="End before this text."),
        click.option("--rule", type=click.Choice(sorted(RULES)), help="Acceptance rule."),
        click.option(
            "--draft-max", type=click.IntRange(0, MAX_DRAFT), help="Longest draft of a round."
        ),
        click.option(
            "--draft-length", type=click.IntRange(0, MAX_DRAFT), help="Fixed draft length."
        ),
        click.option("--no-draft", is_flag=True, help="The target alone."),
        click.option("--reproducible", is_flag=True, help="Bit for bit the same text."),
    )


def settings_of(flags: Mapping[str, Any]) -> Settings:
    """The settings that hold under `flags`. Raises SpecchatError."""
    return load_settings(**{name: flags[name] for name in ("threads", "ctx", "offline")})


def profile_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that `select_profile` takes."""
    return {name: flags[name] for name in ("profile", "target", "draft", "system")}


def sampling_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling settings among `flags`; raises SamplingError for a malformed bias."""
    given: dict[str, Any] = {name: flags[name] for name in SAMPLING_FLAGS}
    if flags["logit_bias"]:
        given["logit_bias"] = dict(_bias(text) for text in flags["logit_bias"])
    return given


def to_answer_options(flags: Mapping[str, Any], sampling: SamplingParams) -> AnswerOptions:
    """Flags as the runtime takes them. Raises GrammarError for an unreadable grammar or schema."""
    return AnswerOptions(
        sampling=sampling,
        max_tokens=flags["max_tokens"],
        stop=tuple(flags["stop"]),
        rule=flags["rule"],
        draft_max=MAX_DRAFT if flags["draft_max"] is None else flags["draft_max"],
        draft_length=flags["draft_length"],
        drafting=not flags["no_draft"],
        reproducible=flags["reproducible"],
        grammar=_grammar(flags["grammar"], flags["json_schema"]),
    )


def _options(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def _bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError as error:
        raise SamplingError(
            f"--logit-bias {text}: write a token id and a number, as in --logit-bias 198=-2.5"
        ) from error


def _grammar(gbnf: str | None, schema: str | None) -> str | None:
    if gbnf is not None and schema is not None:
        raise click.UsageError("--grammar and --json-schema exclude each other")
    if schema is not None:
        return json_schema_to_gbnf(_text_or_file(schema))
    return None if gbnf is None else _text_or_file(gbnf)


def _text_or_file(value: str) -> str:
    if not value.startswith("@"):
        return value
    path = Path(value[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GrammarError(f"{path} cannot be read: {reason}") from error
