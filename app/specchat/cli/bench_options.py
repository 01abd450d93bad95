"""Flags that `specchat bench` shares with the programs of bench/, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.suite import Item, load_suite
from specchat.cli.flags import chosen
from specchat.cli.options import with_options
from specchat.config.settings import Settings
from specchat.models.registry import Profile, Registry
from specchat.wire.address import is_url

F = TypeVar("F", bound=Callable[..., Any])


def prompt_options(command: F) -> F:
    """What is asked."""
    return with_options(
        command,
        click.option("--categories", metavar="A,B", help="Only prompts of these categories."),
        click.option(
            "--limit",
            metavar="N",
            type=click.IntRange(min=1),
            help="First N prompts of each category.",
        ),
        click.option(
            "--prompts",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="JSON lines with id, category, and prompt or turns, instead of the suite.",
        ),
    )


def result_options(command: F) -> F:
    """Where the result goes."""
    return with_options(
        command,
        click.option(
            "--output",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Write the result to this file, as JSON.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured, and what it is asked."""

    settings: Settings
    registry: Registry
    profile: Profile
    items: tuple[Item, ...]


def subject_of(flags: Mapping[str, Any]) -> Subject:
    """What the flags name. Raises SpecchatError."""
    settings, registry, profile = chosen(flags)
    if is_url(profile.target):
        raise BenchmarkError(f"{profile.target} is remote: only this machine is measured")
    categories = (name.strip() for name in (flags["categories"] or "").split(","))
    items = load_suite(flags["prompts"], [name for name in categories if name])
    return Subject(settings, registry, profile, items)


def truncation_of(flags: Mapping[str, Any]) -> dict[str, float]:
    """The sampling settings among `truncation_options` that were given."""
    names = ("top_k", "top_p", "min_p")
    return {name: flags[name] for name in names if flags[name] is not None}
