"""A person's settings: a TOML file, outranked by `SPECCHAT_*` variables, outranked by flags."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from specchat.config import locations
from specchat.config.toml_file import read_toml
from specchat.errors import SpecchatError, nearest
from specengine.core.think import Think
from specengine.llama.placement import GpuLayers
from specengine.sampling import SamplingParams

_PREFIX = "SPECCHAT_"
_LEVEL = "__"  # SPECCHAT_SAMPLING__TOP_K is sampling.top_k


class Settings(BaseSettings):
    """What holds for every chat and every `ask`, until a flag says otherwise."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter=_LEVEL,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    profile: str = "tiny"
    """The profile that is used when none is named: a target, a drafter and settings that suit
    them.
    """

    sampling: SamplingParams = SamplingParams.model_validate({})
    """Sampling settings that override the profile's; only those that are set count."""

    think: Think | None = None
    """Whether a model that can thinks before it answers (on, off), or how hard (low, medium, high).
    Unset: the profile's.
    """

    threads: Annotated[int, Field(ge=1, le=512)] | None = None
    """Threads for llama.cpp. Unset: chosen for this machine."""

    gpu_layers: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Layers of the target on GPUs, counting its output as one. Unset: as many as fit."""

    draft_gpu_layers: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Layers of the draft model on GPUs; it is placed first. Unset: as many as fit."""

    ctx: Annotated[int, Field(ge=64)] | None = None
    """Context length in tokens. Unset: the profile's."""

    earlier_answers: bool = True
    """Draft from the answers in earlier chats, too; changes the speed, never the text."""

    convert_drafts: bool = True
    """Convert a draft model once to the type that is cheapest on this computer, if drafting gets
    faster by it; takes disk space, never changes the text.
    """

    offline: bool = False
    """Make no network connection: use only models that are on this computer."""

    patience_ms: Annotated[float, Field(ge=0, le=60_000)] = 0.0
    """How long a remote target waits for a draft before it goes on by itself, in milliseconds: 0
    is fastest, 1000 or more takes the fewest passes of the target.
    """

    on_loss: Literal["wait", "stop", "local"] = "wait"
    """What to do if the connection to a remote target is lost during an answer: wait until it is
    back, stop and keep what has arrived, or go on locally with the draft model.
    """

    key_over_http: bool = False
    """Send a server's key also over plain http to other computers, where everybody on the way
    can read it.
    """

    predicted_outputs: bool = False
    """Send text that is to be edited as a prediction (OpenAI, Azure, Mistral, Fireworks,
    Cerebras): faster if most of it stays. Predicted tokens that are rejected are billed.
    """

    read_ahead: bool = True
    """Evaluate the prompt while it is typed, on this computer; changes only how soon the answer
    begins, never the text.
    """

    kept_states_mb: Annotated[int, Field(ge=0)] = 1024
    """Megabytes of disk for the evaluated state of chats, so that a reopened chat continues at
    once; the most recently used are kept. 0 keeps none.
    """

    theme: str = "specchat-dark"
    """Colours of the screen: specchat-dark, specchat-light, or the name of a Textual theme."""

    @property
    def gpu(self) -> GpuLayers:
        return GpuLayers(self.gpu_layers, self.draft_gpu_layers)

    @property
    def sampling_overrides(self) -> dict[str, Any]:
        """The sampling settings that were really set, by name."""
        return self.sampling.model_dump(exclude_unset=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = InitSettingsSource(settings_cls, read_toml(locations.settings_file()))
        return init_settings, env_settings, file


def load_settings(**flags: Any) -> Settings:
    """The settings that hold now. A flag that is None was not given.

    Raises SpecchatError, one line that names the file (or variable, or flag) and the key.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SpecchatError(_explain(error, given)) from error
    except SettingsError as error:
        # The only settings whose variables hold JSON.
        raise SpecchatError(f"{_PREFIX}SAMPLING…: not a JSON object: {error.__cause__}") from error


def _explain(error: ValidationError, flags: dict[str, Any]) -> str:
    first = error.errors()[0]
    names = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        of_sampling = names[0] == "sampling"
        known = SamplingParams.model_fields if of_sampling else Settings.model_fields
        reason = f"there is no such setting{nearest(names[-1], known)}"
    else:
        reason = f"{first['msg'].removeprefix('Value error, ')}, got {first['input']!r}"
    return f"{_origin(names, flags)}: {reason}"


def _origin(names: list[str], flags: dict[str, Any]) -> str:
    """Where the value of a setting came from, in the words of whoever set it."""
    if names[0] in flags:
        return f"--{names[-1].replace('_', '-')}"
    for depth in range(len(names), 0, -1):
        variable = _PREFIX + _LEVEL.join(names[:depth]).upper()
        if os.environ.get(variable):
            return variable
    return f"{locations.settings_file()}: {'.'.join(names)}"
