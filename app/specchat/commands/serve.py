"""`specchat serve`: a target for other machines."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event

import click

from specchat import locations
from specchat.commands.event_progress import EventProgress
from specchat.errors import SpecchatError
from specchat.models.registry import Model, Profile, load_registry
from specchat.models.store import ModelStore
from specchat.preparation import prepare
from specchat.selection import select_profile
from specchat.server.keys import load_keys
from specchat.server.limits import Limits
from specchat.server.listen import Listen, check_exposure, log_json, serve
from specchat.server.service import Service
from specchat.settings import load_settings
from specengine.gguf import read_gguf
from specengine.serving.served import ServedModel, ServeOptions

DEFAULT_PORT = 8425

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--profile", metavar="NAME", help="Serve the target of this profile.")
@click.option("--target", metavar="MODEL", help="Serve this model: a registry name or a GGUF file.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(1, 65535))
@click.option(
    "--places",
    default=4,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Answers at the same time; each has its own context.",
)
@click.option("--ctx", type=click.IntRange(min=64), help="Context length of each, in tokens.")
@click.option("--threads", type=int, help="Threads for llama.cpp.")
@click.option("--keys", type=_FILE, help="File with bearer keys, one a line.")
@click.option("--tls-cert", type=_FILE, help="Certificate chain (PEM).")
@click.option("--tls-key", type=_FILE, help="Private key of the certificate (PEM).")
@click.option(
    "--ttl",
    default=900,
    show_default=True,
    type=click.IntRange(min=10),
    help="Seconds an idle session is kept.",
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
    ttl: int,
) -> None:
    """Verify drafts for other machines, and answer the OpenAI protocol.

    Listens beyond this computer only with a key, from SPECCHAT_SERVER_KEY or --keys.
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    listen = Listen(host, port, tls_cert, tls_key)
    allowed = load_keys(os.environ, keys)
    check_exposure(listen, has_keys=bool(allowed))
    settings = load_settings(threads=threads, ctx=ctx)
    registry = load_registry(locations.registry_file())
    chosen = select_profile(registry, settings, profile=profile, target=target)
    alone = chosen.model_copy(update={"draft": "none"})
    with EventProgress() as progress:
        ready = prepare(alone, registry, progress.update, Event(), offline=settings.offline or None)
        options = ServeOptions(alone.n_ctx, places, settings.threads, ready.use_extra_bufts)
        model = ServedModel(ready.target, options)
    service = Service(
        name=_name(alone, ready.target),
        model=model,
        gguf=read_gguf(ready.target),
        keys=allowed,
        sha256=_sha256(registry.models.get(alone.target)),
        limits=Limits(ttl_s=ttl),
    )
    click.echo(f"serving {service.name} on {listen.url}, {places} places of {model.n_ctx} tokens")
    log_json()
    try:
        serve(service, listen)
    except SpecchatError:
        model.close()
        raise


def _name(profile: Profile, path: Path) -> str:
    """A file's path is nobody else's business: its name is enough."""
    return path.stem if Path(profile.target).suffix == ".gguf" else profile.target


def _sha256(model: Model | None) -> str | None:
    if model is None:
        return None
    receipt = ModelStore(locations.models_dir()).receipt(model)
    return model.sha256 if receipt is None else receipt.sha256
