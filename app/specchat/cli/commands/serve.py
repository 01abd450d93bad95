"""`specchat serve`: a target model for other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from specchat.cli.event_progress import EventProgress
from specengine.core.events import Progress

DEFAULT_PORT = 8425

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--profile", metavar="NAME", help="Serve the target of this profile.")
@click.option("--target", metavar="MODEL", help="Serve this model: a model's name or a GGUF file.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port to listen on.",
)
@click.option(
    "--places",
    default=4,
    show_default=True,
    type=click.IntRange(1, 64),
    help="How many answers are generated at the same time, each with its own context.",
)
@click.option(
    "--ctx", type=click.IntRange(min=64), help="Context length of each answer, in tokens."
)
@click.option("--threads", type=int, help="Threads for llama.cpp.")
@click.option("--keys", type=_FILE, help="File with bearer keys, one per line.")
@click.option("--tls-cert", type=_FILE, help="Certificate chain (PEM).")
@click.option("--tls-key", type=_FILE, help="Private key of the certificate (PEM).")
@click.option(
    "--cors",
    multiple=True,
    metavar="ORIGIN",
    help="Let web pages from here use the server, such as http://localhost:3000; * for all. "
    "Repeatable.",
)
@click.option(
    "--ttl",
    default=900,
    show_default=True,
    type=click.IntRange(min=10),
    help="Seconds after which an idle session is forgotten.",
)
def command(
    profile: str | None,
    target: str | None,
    host: str,
    port: int,
    places: int,
    ctx: int | None,
    threads: int | None,
    keys: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    cors: tuple[str, ...],
    ttl: int,
) -> None:
    """Verify drafts for other machines, and answer the protocols of OpenAI, Anthropic and Ollama.

    Other machines can connect only if there is a key: SPECCHAT_SERVER_KEY or --keys.
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key must be given together")
    # Late, since these imports take longer than `--help` should.
    from specchat.server.listen import Listen
    from specchat.server.start import Wanted, start

    start(
        Wanted(profile, target, places, ctx, threads, keys, ttl),
        Listen(host, port, tls_cert, tls_key, cors),
        _progress(),
    )


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    with EventProgress() as progress:
        yield progress.update
