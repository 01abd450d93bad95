"""`specchat sessions`: the saved chats."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from specchat.chats import Chat, ChatStore, ChatSummary
from specchat.chats.archive import archive, read_archive, restore
from specchat.chats.markdown import markdown
from specchat.cli.json_output import json_option, print_json
from specchat.cli.options import WORDS
from specchat.config import locations
from specchat.errors import SpecchatError
from specchat.printable import one_line, printable

_ID = click.IntRange(1, 2**63 - 1)


@click.group()
def command() -> None:
    """List, search, show, export, import and remove saved chats."""


@command.command("list")
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True)
@json_option
def list_chats(limit: int, as_json: bool) -> None:
    """List chats, the most recent first."""
    with _store() as store:
        chats = store.chats(limit)
    if as_json:
        print_json([asdict(chat) for chat in chats])
        return
    for chat in chats:
        click.echo(_line(chat))
    if not chats:
        click.echo("no chats yet: `specchat` starts one", err=True)


@command.command()
@click.argument("words", type=WORDS, nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@json_option
def search(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find messages with words that begin with WORDS; case and diacritics do not count."""
    with _store() as store:
        hits = store.search(" ".join(words), limit)
    if as_json:
        print_json([asdict(hit) for hit in hits])
        return
    for hit in hits:
        click.echo(f"{hit.chat_id:>5}  {one_line(hit.title) or '(untitled)'}")
        if hit.message_id is not None:
            click.echo(f"       {one_line(hit.excerpt)}")
    if not hits:
        click.echo("nothing found", err=True)


@command.command()
@click.argument("chat_id", metavar="ID", type=_ID)
@json_option
def show(chat_id: int, as_json: bool) -> None:
    """Show a chat with all its branches."""
    with _store() as store:
        if as_json:
            click.echo(archive(store, [chat_id]).chats[0].model_dump_json(indent=2))
        else:
            click.echo(printable(markdown(store.chat(chat_id), store.tree(chat_id))))


@command.command()
@click.argument("chat_ids", metavar="[ID]...", type=_ID, nargs=-1)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    help="Format; default: as the file is named, else JSON.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="File to write; default: standard output.",
)
def export(chat_ids: tuple[int, ...], form: str | None, output: Path | None) -> None:
    """Write chats with all their branches; without an ID, all chats.

    JSON is what `import` reads; Markdown is for people.
    """
    if form is None:
        form = "markdown" if output and output.suffix in (".md", ".markdown") else "json"
    with _store() as store:
        ids = chat_ids or tuple(chat.id for chat in store.chats(limit=-1))
        if form == "json":
            text = archive(store, ids).model_dump_json(indent=2) + "\n"
        else:
            text = "\n".join(markdown(store.chat(i), store.tree(i)) for i in ids)
    if output is not None:
        _write(text, output)
        click.echo(f"{len(ids)} chats written to {output}", err=True)
    elif sys.stdout.isatty():
        click.echo(printable(text), nl=False)
    else:
        sys.stdout.buffer.write(text.encode())  # click.echo would drop escapes


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@json_option
def import_chats(file: Path, as_json: bool) -> None:
    """Add the chats in a JSON FILE that `export` wrote; - is standard input."""
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise SpecchatError(f"{file} cannot be read: {error.strerror}") from error
    read = read_archive(content, str(file))
    with _store() as store:
        ids = restore(store, read)
        chats = [store.chat(i) for i in ids]
    if as_json:
        print_json([{"id": chat.id, "title": chat.title} for chat in chats])
        return
    for chat in chats:
        click.echo(_line(chat))


@command.command("rm")
@click.argument("chat_ids", metavar="ID...", type=_ID, nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def remove(chat_ids: tuple[int, ...], yes: bool) -> None:
    """Delete chats for good."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask for confirmation: add --yes")
    with _store() as store:
        chats = [store.chat(i) for i in dict.fromkeys(chat_ids)]
        for chat in chats:
            if yes or click.confirm(f"Delete chat {chat.id}, {one_line(chat.title)!r}?"):
                store.delete_chat(chat.id)


@contextlib.contextmanager
def _store() -> Iterator[ChatStore]:
    store = ChatStore(locations.database_file(), on_delete=_forget_state)
    try:
        yield store
    finally:
        store.close()


def _forget_state(chat_id: int) -> None:
    from specchat.backends.kept_states import (
        KeptStates,  # loads NumPy, which nothing else here needs
    )

    KeptStates(locations.states_dir(), max_bytes=0).forget(chat_id)


def _write(text: str, file: Path) -> None:
    try:
        file.write_bytes(text.encode())
    except OSError as error:
        raise SpecchatError(f"{file} cannot be written: {error.strerror}") from error


def _line(chat: Chat | ChatSummary) -> str:
    title = one_line(chat.title) or "(untitled)"
    return f"{chat.id:>5}  {chat.updated_at.astimezone():%Y-%m-%d %H:%M}  {title}"
