"""Our pair beside llama-server, on the same prompts, in turn.

    python bench/against.py llama-server --profile laptop --limit 2

Takes the flags of `specchat bench`, and shows the same tables.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from peer.sides import open_peers
from servers.llama_server import require_program
from specchat.cli.commands.bench import compare, comparison_options
from specchat.cli.main import run_program


@click.command("against.py")
@click.argument("against", metavar="llama-server|PATH")
@comparison_options
def command(against: str, **flags: Any) -> int:
    """Measure this pair and llama-server on this machine, side by side.

    It is the one of the package xllamacpp, or the first on PATH; PATH names another one.
    """
    require_program(against)
    return compare(flags, partial(open_peers, against))


if __name__ == "__main__":
    run_program(command)
