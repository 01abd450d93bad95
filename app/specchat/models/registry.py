"""The registry: models, and profiles that pair a target with a drafter."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from specchat.config import locations
from specchat.config.toml_file import read_toml
from specchat.errors import first_fault, nearest
from specchat.models.errors import RegistryError
from specchat.models.scan import scan
from specchat.models.sources import problem
from specchat.wire.address import is_url
from specengine.core.think import Think
from specengine.drafters.registry import named
from specengine.sampling import SamplingParams

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def _well_formed(source: str) -> str:
    if cause := problem(source):
        raise ValueError(f"{source!r} is not a valid source: {cause}")
    return source


Source = Annotated[str, AfterValidator(_well_formed)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Model(_Entry):
    """A GGUF file: where to get it, and how to know that it is the right one."""

    name: Name
    description: str
    """One line for `models list`."""
    licence: str
    """SPDX identifier, or the licence's own name."""
    sources: tuple[Source, ...] = Field(min_length=1)
    """Tried in this order."""
    bytes: int | None = Field(default=None, gt=0)
    """Size of the file. Absent: taken from the source."""
    sha256: Sha256 | None = None
    """Hash of the file. Absent: taken from the source."""
    head_for: str | None = None
    """Of a head: the model whose hidden states it reads; it drafts for that model alone."""
    mask_token: int | None = Field(default=None, ge=0)
    """Of a model that drafts all tokens in one pass, the id that stands for them, where its file
    does not name it: `pard_token` in the configuration of PARD checkpoints.
    """

    @property
    def file_name(self) -> str:
        return f"{self.name}.gguf"


class Profile(_Entry):
    """What a person picks: a target, what drafts for it, and settings that suit the pair."""

    name: Name
    description: str
    """One line for `models list` and the list of profiles."""
    target: str
    """A model's name, or the address of a server."""
    draft: str | None = None
    """`lookup`, `none` (as if absent), a model's name (lookup drafts beside it), `mtp` (lookup and
    the heads in the target's own file), or `auto`: lookup, and the first that is on this computer
    of the heads in the target's file, the heads for it, and the alternatives.
    """
    alternatives: tuple[str, ...] = ()
    """Other models that can draft; downloaded together with the profile."""
    system: str | None = None
    """System message. Empty: an empty one is sent. Absent: the model's template decides."""
    n_ctx: int = Field(default=4096, ge=256)
    """Context length in tokens."""
    sampling: SamplingParams = SamplingParams.model_validate({})
    """Sampling settings that suit the target; only those that were set count."""
    think: Think | None = None
    """Whether the target thinks before it answers, and how hard. Absent: its template decides."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that it needs, and of the alternatives."""
        draft = [self.draft_model] if self.draft_model else []
        target = [] if is_url(self.target) else [self.target]
        return (*target, *draft, *self.alternatives)

    @property
    def draft_model(self) -> str | None:
        """The name of the model, head or file that is to draft, where `draft` is one."""
        return model_in(self.draft)


def model_in(draft: str | None) -> str | None:
    """`draft` where it names a model, head or file; None if it is a drafter without one."""
    return draft if draft and draft not in ("none", "auto", *named()) else None


class _File(_Entry):
    models: dict[str, Model] = {}
    profiles: dict[str, Profile] = {}

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for profile in self.profiles.values():
            for model in profile.models:
                if model not in self.models:
                    known = nearest(model, self.models)
                    raise ValueError(
                        f"profiles.{profile.name} names the model {model!r}, which is not in the "
                        f"registry{known}"
                    )
        for head in self.models.values():
            if head.head_for is not None and head.head_for not in self.models:
                known = nearest(head.head_for, self.models)
                raise ValueError(
                    f"models.{head.name} is a head for {head.head_for!r}, which is not in the "
                    f"registry{known}"
                )
        return self


@dataclass(frozen=True)
class Registry:
    """All models and profiles, by name, in the order of the file."""

    models: Mapping[str, Model]
    profiles: Mapping[str, Profile]

    def model(self, name: str) -> Model:
        """Raises RegistryError with the nearest name."""
        if name not in self.models:
            raise RegistryError(f"there is no model {name!r}{nearest(name, self.models)}")
        return self.models[name]

    def profile(self, name: str) -> Profile:
        """Raises RegistryError with the nearest name."""
        if name not in self.profiles:
            raise RegistryError(f"there is no profile {name!r}{nearest(name, self.profiles)}")
        return self.profiles[name]

    def heads_for(self, target: str) -> list[str]:
        """Names of the heads that were made for the model of this name."""
        return [model.name for model in self.models.values() if model.head_for == target]

    def models_of(self, name: str) -> list[Model]:
        """A model by its name, or all that a profile needs. Raises RegistryError."""
        if name in self.profiles:
            return [self.models[member] for member in self.profiles[name].models]
        if name in self.models:
            return [self.models[name]]
        near = nearest(name, [*self.profiles, *self.models])
        raise RegistryError(f"there is no model or profile {name!r}{near}")

    def mask_token(self, name: str) -> int | None:
        """The mask token of the model `name`, where its entry has one; None for a file."""
        model = self.models.get(name)
        return model.mask_token if model is not None else None

    def resolve(self, text: str) -> Model | Path:
        """What a person may mean: a model's name, a path, or what another program calls its file.

        `qwen2.5:7b` is Ollama's model of that name. Raises RegistryError.
        """
        if text in self.models:
            return self.models[text]
        path = locations.expanded(text)
        with suppress(OSError):  # a name that is too long for a file, for instance
            if path.is_file():
                return path.absolute()
            if path.is_dir() and path.name != text:
                raise RegistryError(f"{text} is a folder: name a GGUF file in it")
        for found in scan(locations.models_dir()):
            if found.name == text:
                return found.path
        if path.suffix == ".gguf":
            raise RegistryError(f"there is no file {text}")
        return self.model(text)


def load_registry(own: Path | None = None) -> Registry:
    """The registry that comes with the program, with the person's `own` file merged over it.

    Entries of the same name are merged field by field. Raises RegistryError, naming the file and
    the entry.
    """
    shipped = shipped_file()
    content = read_toml(shipped, RegistryError)
    file = _validate(content, shipped)
    if own is not None and own.exists():
        file = _validate(_merged(content, read_toml(own, RegistryError)), own)
    return Registry(file.models, file.profiles)


def shipped_file() -> Path:
    """`models.toml` as the wheel carries it, or in a checkout the one at the top."""
    package = Path(__file__).parents[1]
    packaged = package / "models.toml"
    return packaged if packaged.exists() else package.parents[1] / "models.toml"


def _validate(content: dict[str, Any], path: Path) -> _File:
    try:
        return _File.model_validate({kind: _named(entries) for kind, entries in content.items()})
    except ValidationError as error:
        raise RegistryError(f"{path}: {first_fault(error)}") from error


def _named(entries: Any) -> Any:
    """Tell each entry of a table its own name; anything but a table is left to validation."""
    if not isinstance(entries, dict):
        return entries
    return {
        name: {**entry, "name": name} if isinstance(entry, dict) else entry
        for name, entry in entries.items()
    }


def _merged(below: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in over.items():
        old = below.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = _merged(old, value)
        else:
            result[key] = value
    return result
