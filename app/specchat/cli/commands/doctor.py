"""`specchat doctor`: what works here, what does not, and how to fix it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from specchat.cli.json_output import json_option, print_json

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@json_option
@click.option(
    "--measure", is_flag=True, help="First measure again what passes of the profile's models cost."
)
def command(as_json: bool, measure: bool) -> int:
    """Say what works on this machine, what does not, and how to fix it.

    Exits with 1 if something does not work.
    """
    # Late, since these imports take longer than `--help` should.
    from specchat.cli.event_progress import EventProgress
    from specchat.doctor.check import Check
    from specchat.doctor.diagnosis import diagnose
    from specchat.doctor.passes import measure_again

    if measure:
        with EventProgress() as progress:
            asyncio.run(measure_again(progress.update))
    checks: list[Check] = []
    for check in diagnose():
        checks.append(check)
        if not as_json:
            status = click.style(f"{check.status:<5}", fg=COLOURS[check.status], bold=True)
            click.echo(f"{status} {check.name:<16} {check.detail}")
            if check.remedy:
                click.echo(f"{'':<23}-> {check.remedy}")
    failed = any(check.status == "fail" for check in checks)
    if not as_json and any(check.status != "ok" for check in checks):
        click.echo("Causes and remedies by symptom: docs/troubleshooting.md")
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    return 1 if failed else 0
