"""From the values of flags to settings, models, sampling and answer options, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.kept_states import KeptStates
from specchat.backends.runtime import Runtime
from specchat.backends.verify_server.pair import RemoteOptions
from specchat.config import locations
from specchat.config.settings import Settings, load_settings
from specchat.models.registry import Profile, Registry, load_registry
from specchat.models.selection import select_profile, select_sampling, select_think
from specengine.core.errors import GrammarError, SamplingError
from specengine.rules import make_rule
from specengine.sampling import SamplingParams
from specengine.sampling.json_schema import schema_as_lark

_SETTINGS = (
    *("threads", "gpu_layers", "draft_gpu_layers", "ctx"),
    *("offline", "on_loss", "key_over_http"),
)


def settings_of(flags: Mapping[str, Any]) -> Settings:
    """The settings that hold under `flags`. Raises SpecchatError."""
    return load_settings(**{name: flags.get(name) for name in _SETTINGS})


def profile_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that `select_profile` takes."""
    return {name: flags[name] for name in ("profile", "target", "draft", "system")}


def chosen(flags: Mapping[str, Any]) -> tuple[Settings, Registry, Profile]:
    """What holds under `flags`, and the profile that they name. Raises SpecchatError."""
    settings = settings_of(flags)
    registry = load_registry(locations.registry_file())
    return settings, registry, select_profile(registry, settings, **profile_flags(flags))


def runtime_of(
    settings: Settings,
    registry: Registry,
    *,
    earlier: Callable[[str], Sequence[Sequence[int]]] | None = None,
    states: KeptStates | None = None,
) -> Runtime:
    """A runtime under `settings`; `earlier` and `states` are as for `Runtime`."""
    return Runtime(
        registry,
        n_threads=settings.threads,
        gpu_layers=settings.gpu,
        offline=settings.offline,
        convert_drafts=settings.convert_drafts,
        earlier=earlier,
        remote=RemoteOptions(
            settings.patience_ms,
            settings.on_loss,
            settings.predicted_outputs,
            settings.key_over_http,
        ),
        states=states,
        reads_ahead=settings.read_ahead,
    )


def _sampling_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling settings among `flags`; raises SamplingError for a malformed bias."""
    given = {name: flags[name] for name in SamplingParams.model_fields if name in flags}
    biases = given.pop("logit_bias")
    return given | ({"logit_bias": dict(_bias(text) for text in biases)} if biases else {})


def to_answer_options(
    settings: Settings, flags: Mapping[str, Any], profile: Profile
) -> AnswerOptions:
    """Flags as the runtime takes them, over `settings` and `profile`.

    Raises GrammarError for an unreadable grammar or schema, SamplingError for a rule that does not
    go with the sampling.
    """
    sampling = select_sampling(profile, settings, _sampling_flags(flags))
    make_rule(flags["rule"], sampling)  # here, before models are loaded and servers connected to
    own = {f.name: flags[f.name] for f in fields(AnswerOptions) if f.name in flags}
    own |= {
        "sampling": sampling,
        "think": select_think(profile, settings, flags["think"]),
        "drafting": not flags["no_draft"],
        "grammar": _grammar(flags["grammar"], flags["json_schema"]),
    }
    return AnswerOptions(**own)


def _bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError as error:
        raise SamplingError(
            f"--logit-bias {text}: write a token id and a number, as in --logit-bias 198=-2.5"
        ) from error


def _grammar(grammar: str | None, schema: str | None) -> str | None:
    if grammar is not None and schema is not None:
        raise click.UsageError("--grammar and --json-schema exclude each other")
    if schema is None:
        return None if grammar is None else _text_or_file(grammar)
    text = _text_or_file(schema)
    schema_as_lark(text)  # what is wrong with it is said before models are loaded
    return "{}" if text.strip() == "true" else text


def _text_or_file(value: str) -> str:
    if not value.startswith("@"):
        return value
    path = Path(value[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GrammarError(f"{path} cannot be read: {reason}") from error
