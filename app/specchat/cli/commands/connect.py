"""`specchat connect`: what a remote target is, and how to use it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

import click

from specchat.backends.examination import Examination, examine
from specchat.backends.expectation import TYPICAL_LOOKUP, TYPICAL_MODEL, expected_gain
from specchat.backends.pass_costs import CostStore
from specchat.backends.scoring.dialect import Capabilities
from specchat.backends.scoring.pair import ENGINES, ScoringServer, examine_scoring
from specchat.backends.trials import try_out
from specchat.backends.verify_server.client import VerifyServer
from specchat.backends.verify_server.vocabulary import fetch_vocabulary
from specchat.cli.json_output import json_option, print_json
from specchat.cli.options import key_over_http_option
from specchat.config import locations
from specchat.config.settings import load_settings
from specchat.errors import SpecchatError
from specchat.models.ensure import ensure_model
from specchat.models.registry import load_registry, model_in
from specchat.wire.address import Address, parse_address
from specchat.wire.keys import Key, Keys
from specengine.cache.costs import PassCosts
from specengine.core.limits import MAX_DRAFT
from specengine.files.compatibility import compare_vocabularies
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.language_model import read_draft
from specengine.llama.model import LlamaModel
from specengine.stream.scoring import ScoresError

_WAYS = {
    "ids": "same vocabulary as the target",
    "tokens": "drafts the tokens that both vocabularies have",
    "text": "has another vocabulary: drafts text",
    None: "cannot draft for this server",
}


@click.command()
@click.argument("url")
@click.option("--draft", metavar="MODEL", help="Draft model to check against the server.")
@key_over_http_option
@json_option
def command(url: str, draft: str | None, key_over_http: bool | None, as_json: bool) -> int:
    """Say what the server at URL is, what it can verify, and how long the way there takes.

    Exits with 1 if the draft model cannot draft for it.
    """
    settings = load_settings(key_over_http=key_over_http)
    if settings.offline:
        raise SpecchatError(
            f"cannot connect to {url}: specchat is offline (--offline or SPECCHAT_OFFLINE)"
        )
    address = parse_address(url)
    key = Keys(url, settings.key_over_http).find(address)
    found = asyncio.run(examine(address, key))
    model = _draft_model(found, draft)
    scores = _scores(address, key, found, model)
    way = "ids" if isinstance(scores, Capabilities) else _way(address, key, found, draft, model)
    misfit = draft is not None and way is None
    gain = None if misfit or draft == "none" else _gain(found, model)
    entry = _profile(found, address, None if misfit else draft)
    if as_json:
        result: dict[str, Any] = {**found.model_dump(), "profile": entry}
        if draft is not None:
            result |= {"draft": draft, "drafts_reach_it": way}
        result["expected_gain"] = gain
        if scores is not None:
            told = asdict(scores) if isinstance(scores, Capabilities) else None
            result |= {"capabilities": told, "cannot_verify": None if told else scores}
        print_json(result)
    else:
        _print(found, draft, way, entry, _verifies(found, scores), gain)
    return 1 if misfit else 0


def _draft_model(found: Examination, draft: str | None) -> GGUF | None:
    """The file of a draft model that the server might verify."""
    if (name := model_in(draft)) is None or not (found.verifies or found.kind in ENGINES):
        return None
    return read_draft(ensure_model(load_registry(locations.registry_file()).resolve(name)))


def _scores(
    address: Address, key: Key | None, found: Examination, model: GGUF | None
) -> Capabilities | str | None:
    """For an engine that can score: what it proved to do for the draft model, or why nothing."""
    if found.kind not in ENGINES:
        return None
    if model is None:
        return "name the draft model with --draft to find out"
    server = ScoringServer(address, key, found.kind, address.model or found.models[0], 0)
    try_out(model, vocab_only=True, on_event=lambda _: None, cancel=Event())
    vocabulary = LlamaModel(model.path, vocab_only=True)
    try:
        return asyncio.run(examine_scoring(server, vocabulary.vocab, vocabulary.chat_template))
    except ScoresError as error:
        return str(error)
    finally:
        vocabulary.close()


def _way(
    address: Address, key: Key | None, found: Examination, draft: str | None, model: GGUF | None
) -> str | None:
    """How the tokens of `draft` reach this target; None if they cannot, or none is wanted."""
    if draft is None or found.vocab_fingerprint is None:
        return None
    if model is None:
        return "ids"
    vocabulary = asyncio.run(_vocabulary(address, key, found.vocab_fingerprint))
    way = compare_vocabularies(read_gguf(vocabulary), model).way
    return None if way == "none" else way


async def _vocabulary(address: Address, key: Key | None, fingerprint: str) -> Path:
    server = VerifyServer(address, key)
    try:
        return await fetch_vocabulary(server, fingerprint)
    finally:
        await server.close()


def _profile(found: Examination, address: Address, draft: str | None) -> str:
    """What to put into models.toml."""
    target = found.address if address.model is None else f"{found.address}#{address.model}"
    lines = [
        "[profiles.remote]",
        f'description = "{(address.model or (found.models or ["?"])[0])} on a server"',
        f'target = "{target}"',
    ]
    if found.verifies or (draft is not None and found.kind in ENGINES):
        lines.append(f'draft = "{draft or "lookup"}"')
    return "\n".join(lines)


def _print(
    found: Examination,
    draft: str | None,
    way: str | None,
    entry: str,
    verifies: str,
    gain: float | None,
) -> None:
    dialects = ENGINES[found.kind]("") if found.kind in ENGINES else ()
    kind = dialects[0].name if dialects else "unknown, speaks the OpenAI protocol"
    rows = [
        ("server", found.server or kind),
        ("models", ", ".join(found.models) or "none"),
        ("verifies", verifies),
        ("round trip", f"{found.round_trip_ms:.1f} ms"),
    ]
    if found.pass_ms is not None:
        rows.append(("a pass", f"{found.pass_ms:.0f} ms"))
    if found.verifies:
        rows.append(("stream down", _buffering(found.buffers_down)))
        rows.append(("hints up", _buffering(found.buffers_up)))
    if draft is not None:
        rows.append(("draft", f"{draft}: {_WAYS[way]}"))
    if found.verifies:
        rows.append(("expected", _expected(gain, draft or "lookup")))
    for name, value in rows:
        click.echo(f"{name:<12} {value}")
    click.echo(f"\nTo use it, add to {locations.registry_file()}:\n\n{entry}")


def _gain(found: Examination, model: GGUF | None) -> float | None:
    """What drafts of `model`, or else of lookup, are expected to bring; None if something of that
    is not known.
    """
    if not found.passes_s:
        return None
    draft_s, acceptance = 0.0, TYPICAL_LOOKUP
    if model is not None:
        store = CostStore(locations.pass_costs_file(), load_settings().threads)
        known = list(store.load([model.path]).values())
        if not known:
            return None
        draft_s, acceptance = PassCosts(known[-1]).seconds(1), TYPICAL_MODEL
    passes = PassCosts(found.passes_s)
    narrowest = min(found.passes_s)
    return expected_gain(
        found.round_trip_ms / 1000,
        lambda n: passes.seconds(max(n, narrowest)),
        draft_s,
        acceptance,
        MAX_DRAFT,
    )


def _expected(gain: float | None, draft: str) -> str:
    if gain is None:
        return "unknown until the draft model has been used on this computer once"
    if model_in(draft) is None:
        return (
            f"{gain:.1f} times as fast if the answer repeats earlier text; otherwise as fast as "
            "without drafts"
        )
    return (
        f"{gain:.1f} times as fast as the server alone, if {TYPICAL_MODEL:.0%} of the draft "
        "tokens are accepted"
    )


def _verifies(found: Examination, scores: Capabilities | str | None) -> str:
    if found.verifies:
        return f"drafts, exactly, with any sampling; context of {found.n_ctx} tokens"
    if isinstance(scores, Capabilities):
        return (
            f"drafts, exactly, at temperature 0, with --top-k up to {scores.prompt_top_n}, or at "
            "temperature 1 without truncation"
        )
    if scores is not None:
        return f"nothing: {scores}"
    return "nothing: its own answers are streamed, without drafts"


def _buffering(buffers: bool | None) -> str:
    if buffers is None:
        return "could not be determined"
    return (
        "buffered by something between here and the server: slow" if buffers else "arrives at once"
    )
