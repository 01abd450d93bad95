"""`specchat models`: list, download, check, cut, find and remove models."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specchat.cli.event_progress import EventProgress
from specchat.cli.json_output import json_option, print_json
from specchat.config import locations
from specchat.models.download import Unfinished
from specchat.models.ensure import ensure_model
from specchat.models.errors import DownloadCancelledError
from specchat.models.memory import available_memory
from specchat.models.registry import Model, Registry, load_registry
from specchat.models.scan import Found, scan
from specchat.models.sizes import readable_size
from specchat.models.store import ModelStore
from specchat.printable import one_line
from specengine.core.errors import ModelFileError
from specengine.core.events import Progress
from specengine.files.compatibility import Comparison, Way, compare
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.head_files import kind_of_head
from specengine.files.language_model import read_draft, read_target
from specengine.files.layerskip import write_first_layers
from specengine.llama.model_memory import model_memory

_WAYS: dict[Way, str] = {
    "ids": "token by token: the vocabularies agree",
    "tokens": "with the tokens that both vocabularies have",
    "text": "as text, which is then encoded for it",
}

_WIDE = 250  # columns of a table that no terminal shows: lines stay whole for grep


@click.group()
def command() -> None:
    """List, download, check, cut, find and remove models."""


@command.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List models and profiles, and which models are on this computer."""
    registry, store = _registry(), _store()
    files = scan(store.folder)
    models = [_state(model, store, files) for model in registry.models.values()]
    profiles = [p.model_dump(mode="json", exclude_unset=True) for p in registry.profiles.values()]
    if as_json:
        print_json({"models": models, "profiles": profiles})
        return
    rows = [[m["name"], _size(m["bytes"]), _where(m), m["description"]] for m in models]
    _print_table(["model", "size", "here", "what it is"], rows)
    click.echo()
    rows = [[p["name"], p["target"], p.get("draft", "none"), p["description"]] for p in profiles]
    _print_table(["profile", "target", "draft", "what it is"], rows)


@command.command()
@click.argument("names", metavar="NAME|PROFILE...", nargs=-1, required=True)
@json_option
def pull(names: Sequence[str], as_json: bool) -> None:
    """Download models, or all that profiles need; continue downloads that were stopped."""
    registry, store = _registry(), _store()
    pulled = []
    for model in _models_of(registry, names):
        with EventProgress() as progress:
            path = _fetched(model, progress)
        pulled.append(_state(model, store, []))
        if not as_json:
            click.echo(f"{model.name}: {path}")
    if as_json:
        print_json(pulled)


@command.command()
@click.argument("target")
@click.argument("draft")
@click.option(
    "--ctx",
    "n_ctx",
    type=click.IntRange(min=64),
    default=4096,
    show_default=True,
    help="Context length, in tokens, to compute the memory for.",
)
@json_option
def check(target: str, draft: str, n_ctx: int, as_json: bool) -> None:
    """Say how DRAFT can draft for TARGET (names or GGUF files); exit with 1 if it cannot."""
    registry = _registry()
    pair = [
        read_target(_local_file(registry, target)),
        read_draft(_local_file(registry, draft)),
    ]
    comparison = compare(pair[0], pair[1], registry.mask_token(draft))
    memory = {
        "needed": sum(model_memory(gguf, n_ctx).total for gguf in pair),
        "available": available_memory(),
        "n_ctx": n_ctx,
    }
    if as_json:
        print_json({**asdict(comparison), "memory": memory})
    else:
        for line in _explained(pair[0], pair[1], comparison, memory):
            click.echo(one_line(line))
    if comparison.way == "none" or memory["needed"] > memory["available"]:
        sys.exit(1)


@command.command("scan")
@json_option
def scan_models(as_json: bool) -> None:
    """Find the GGUF files of Hugging Face, LM Studio, Ollama and llama.cpp on this computer."""
    registry, store = _registry(), _store()
    files = [_described(found, registry, store) for found in scan(store.folder)]
    if as_json:
        print_json(files)
    elif files:
        rows = [[f["keeper"], f["name"], _size(f["bytes"]), _summary(f)] for f in files]
        _print_table(["kept by", "name", "size", "what it is"], rows)
    else:
        click.echo("No GGUF files found. `specchat models pull laptop` downloads a pair.")


@command.command()
@click.argument("target")
@click.option(
    "--layers",
    "n_layers",
    type=click.IntRange(min=1),
    required=True,
    metavar="E",
    help="How many layers to keep; more layers draft better and take longer.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="File to write; default: in the models folder.",
)
def layerskip(target: str, n_layers: int, output: Path | None) -> None:
    """Write the first E layers of TARGET as a model that drafts for it (--draft FILE).

    Worth it for models that were trained for early exit; docs/drafters.md has figures.
    """
    source = _local_file(_registry(), target)
    output = output or locations.models_dir() / f"{source.stem}-first-{n_layers}.gguf"
    written = write_first_layers(source, n_layers, output)
    click.echo(one_line(f"{written.path}: {n_layers} layers, {readable_size(written.file_size)}"))


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
def rm(names: Sequence[str], as_json: bool) -> None:
    """Delete downloaded models; files of other programs are left alone."""
    registry, store = _registry(), _store()
    removed = []
    for model in [registry.model(name) for name in names]:
        freed = store.remove(model)
        removed.append({"name": model.name, "bytes": freed})
        if not as_json:
            done = f"{readable_size(freed)} freed" if freed else "nothing was downloaded"
            click.echo(f"{model.name}: {done}")
    if as_json:
        print_json(removed)


def _registry() -> Registry:
    return load_registry(locations.registry_file())


def _store() -> ModelStore:
    return ModelStore(locations.models_dir())


def _models_of(registry: Registry, names: Iterable[str]) -> list[Model]:
    """The models that names of models and profiles stand for, each once."""
    wanted: dict[str, Model] = {}
    for name in names:
        wanted.update((model.name, model) for model in registry.models_of(name))
    return list(wanted.values())


def _fetched(model: Model, progress: EventProgress) -> Path:
    def show(done: int, total: int) -> None:
        progress.update(Progress("download", done, total, model.name))

    try:
        return ensure_model(model, on_progress=show, on_notice=progress.notice)
    except (KeyboardInterrupt, DownloadCancelledError):
        progress.notice(f"{model.name}: stopped; the next `models pull` continues from here")
        raise KeyboardInterrupt from None


def _local_file(registry: Registry, text: str) -> Path:
    model = registry.resolve(text)
    return model if isinstance(model, Path) else ensure_model(model, only_here=True)


def _state(model: Model, store: ModelStore, files: Sequence[Found]) -> dict[str, Any]:
    """A model as JSON shows it: what the registry says, and where it is on this computer."""
    receipt = store.receipt(model)
    candidate = None if receipt else next(store.candidates(model, files), None)
    here = receipt or candidate
    return {
        **model.model_dump(mode="json"),
        "bytes": here.size if here else model.bytes,
        "sha256": receipt.sha256 if receipt else model.sha256,
        "path": str(here.path) if here else None,
        "keeper": here.keeper if here else None,
        "unfinished": Unfinished.of(store.own_path(model)).size(),
    }


def _where(state: dict[str, Any]) -> str:
    if state["path"]:
        return "yes" if state["keeper"] == "specchat" else f"yes, by {state['keeper']}"
    return f"{readable_size(state['unfinished'])} of it" if state["unfinished"] else ""


def _described(found: Found, registry: Registry, store: ModelStore) -> dict[str, Any]:
    known = (m.name for m in registry.models.values() if any(store.candidates(m, [found])))
    description: dict[str, Any] = {
        "keeper": found.keeper,
        "name": found.name,
        "path": str(found.path),
        "bytes": found.size,
        "sha256": found.sha256,
        "model": next(known, None),
    }
    try:
        gguf = read_gguf(found.path)
    except ModelFileError as error:
        return {**description, "problem": str(error)}
    return {
        **description,
        "kind": gguf.kind,
        "architecture": gguf.architecture,
        "quantization": gguf.quantization,
        "parameters": gguf.n_params,
        "n_ctx_train": gguf.n_ctx_train,
    }


def _summary(description: dict[str, Any]) -> str:
    if "problem" in description:
        return str(description["problem"])
    words = [description["architecture"], description["quantization"]]
    if description["kind"] != "model":
        words.append(f"({description['kind']}, not a chat model)")
    if description["model"]:
        words.append(f"= {description['model']}")
    return " ".join(words)


def _explained(
    target: GGUF, draft: GGUF, comparison: Comparison, memory: dict[str, int]
) -> Iterable[str]:
    if comparison.way == "none":
        yield f"no: {comparison.cause}"
    else:
        yield f"yes: {draft.path.name} can draft for {target.path.name}, {_way(draft, comparison)}"
    if comparison.verdict == "different" and comparison.way != "none":
        yield f"the vocabularies differ: {comparison.cause}"
        yield f"the target has {comparison.overlap:.0%} of the draft model's tokens"
    if comparison.mask_token is not None:
        yield (
            "it drafts all tokens in one pass if it was trained for that (mask token "
            f"{comparison.mask_token}), else token by token; the faster way is found while "
            "drafting"
        )
    yield from comparison.notices
    fits = "which fits" if memory["needed"] <= memory["available"] else "which does not fit"
    yield (
        f"together they need {readable_size(memory['needed'])} of memory at {memory['n_ctx']} "
        f"tokens of context, {fits}: {readable_size(memory['available'])} are available"
    )


def _way(draft: GGUF, comparison: Comparison) -> str:
    if comparison.way == "head":
        return f"as a head ({kind_of_head(draft)}), from its hidden states"
    return _WAYS[comparison.way]


def _size(size: int | None) -> str:
    return readable_size(size) if size else "?"


def _print_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(*titles, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    console.print(table)
