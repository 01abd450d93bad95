"""`--json`: what a command found, for programs."""

from __future__ import annotations

import json
from datetime import datetime

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: object) -> None:
    """Prints `value`, in which there may be times."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=datetime.isoformat))
