"""`specchat locate`: where everything is kept."""

from __future__ import annotations

import click

from specchat.cli.json_output import json_option, print_json
from specchat.config import locations


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show where settings, chats, models and the log are.

    SPECCHAT_HOME moves everything, SPECCHAT_MODELS_DIR only the models.
    """
    paths = {
        "settings": locations.settings_file(),
        "registry": locations.registry_file(),
        "chats": locations.database_file(),
        "models": locations.models_dir(),
        "log": locations.log_file(),
        "cache": locations.cache_dir(),
    }
    if as_json:
        print_json({name: str(path) for name, path in paths.items()})
        return
    for name, path in paths.items():
        click.echo(f"{name:<9} {path}{'' if path.exists() else '  (not there yet)'}")
