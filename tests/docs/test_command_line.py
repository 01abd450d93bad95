"""docs/command-line.md names every command, every setting with its default, and every figure."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from specchat.cli.main import COMMANDS
from specchat.config.settings import Settings
from specengine.core.statistics import DrafterCounts, Statistics
from specengine.rules import RULES
from specengine.sampling import SamplingParams

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text("utf-8")


def rows(title: str) -> list[list[str]]:
    """The cells of the table whose first row begins with `title`."""
    table = PAGE.partition(f"\n| {title} |")[2].partition("\n\n")[0]
    return [line.strip().strip("|").split("|") for line in table.splitlines()[2:]]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_commands_are_those_that_there_are() -> None:
    assert [words(row[0])[0] for row in rows("command")] == ["specchat", *COMMANDS]


def test_the_settings_are_those_that_there_are_with_their_defaults() -> None:
    told: dict[str, object] = {}
    for names, defaults, *_ in rows("setting"):
        given = words(defaults) or [""] * len(words(names))
        for name, default in zip(words(names), given, strict=True):
            told[name] = tomllib.loads(f"x = {default}")["x"] if default else None
    real = {name: field.default for name, field in Settings.model_fields.items()}
    assert told == {**real, "sampling": None}


def test_the_sampling_settings_are_those_that_there_are() -> None:
    [row] = [row for row in rows("setting") if "`sampling`" in row[0]]
    assert set(words(row[2])) == set(SamplingParams.model_fields)


def test_the_figures_are_those_that_there_are() -> None:
    figures = Statistics().model_dump()
    told = rows("key")
    [timing] = [row for row in told if "`timing`" in row[0]]
    assert set(words(timing[1])) == set(figures.pop("timing"))
    keys = {word for row in told for word in words(row[0])}
    assert keys >= {*figures, *figures["speculation"]}
    [by_drafter] = [row for row in told if "`by_drafter`" in row[0]]
    assert set(words(by_drafter[1])) == set(DrafterCounts._fields)


def test_the_default_rules_are_rules() -> None:
    [row] = [row for row in rows("flag") if "`--rule`" in row[0]]
    assert {"greedy", "coupled", "block"} == set(words(row[1])) & set(RULES)
