from typing import get_args

import click
import pytest
from click.testing import CliRunner

from specchat.cli import options
from specchat.config.settings import Settings
from specengine.drafters.registry import DRAFTERS
from specengine.rules import RULES


@click.command()
@options.model_options
@options.answer_options
def command(rule: str | None, **_: object) -> None:
    click.echo(rule)


def test_the_flags_know_what_the_settings_know() -> None:
    assert get_args(Settings.model_fields["on_loss"].annotation) == options.ON_LOSS


def test_a_registered_rule_can_be_asked_for_and_help_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert CliRunner().invoke(command, ["--rule", "new"]).exit_code == 2
    monkeypatch.setitem(RULES, "new", RULES["token"])
    assert CliRunner().invoke(command, ["--rule", "new"]).output == "new\n"
    assert f"--rule [{'|'.join(RULES)}]" in CliRunner().invoke(command, ["--help"]).output


def test_help_names_a_registered_drafter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRAFTERS, "new", DRAFTERS["lookup"])
    shown = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "a GGUF file, lookup, mtp, new, none, or auto" in shown
