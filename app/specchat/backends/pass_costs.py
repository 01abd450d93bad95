"""Keeps what passes cost from one run to the next: measured once per model, build, CPU, threads and
way of loading: the layers that are on a GPU, weights that are not repacked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, OnErrorOmit, RootModel, ValidationError

from specengine.cache.costs import PassCosts
from specengine.cache.measurement import Measurement
from specengine.llama.probe import build_key
from specengine.llama.threads import default_threads

_LONGEST_S = 3600.0

Width = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, lt=_LONGEST_S)]


class KeptCosts(BaseModel):
    """What is known of one model, and when and under what conditions it was measured."""

    seconds: dict[OnErrorOmit[Width], OnErrorOmit[Seconds]] = Field(min_length=1)
    """By width of the pass; the latest answers have their share in them."""
    measured: Measurement | None = None
    """None if no calibration but answers alone have taught it."""


class _File(RootModel[dict[str, OnErrorOmit[KeptCosts]]]):
    """By a key for each model. What cannot be is left out, and what earlier versions wrote."""


class CostStore:
    """One small JSON file; what cannot be read is measured again."""

    def __init__(self, file: Path, n_threads: int | None) -> None:
        """`n_threads`: None for the engine's own choice."""
        self._file = file
        self._n_threads = n_threads

    def load(self, models: Sequence[Path]) -> dict[str, dict[int, float]]:
        """What is known of `models`, however they were loaded, by `placement.costs_name`."""
        known = self._read()
        return {
            name + key.removeprefix(own): costs.seconds
            for name, own in self._keys(models)
            for key, costs in known.items()
            if _is_of(key, own)
        }

    def here(self) -> dict[str, KeptCosts]:
        """All that is known of passes on this machine, with this number of threads, by
        `placement.costs_name`.
        """
        found = {}
        for key, costs in self._read().items():
            file, here, way = key.partition(f" {self._machine}")
            if here:
                found[file.rpartition(" ")[0] + way] = costs
        return found

    def save(self, models: Sequence[Path], costs: Mapping[str, PassCosts]) -> None:
        """Remember `costs` of `models`, by `placement.costs_name`. A folder that cannot be written
        costs a measurement.
        """
        known = self._read()
        new = {}
        for model, own in self._keys(models):
            for name, learned in costs.items():
                seconds = _possible(learned)
                if seconds and _is_of(name, model):
                    key = own + name.removeprefix(model)
                    earlier = known[key].measured if key in known else None
                    measured = learned.measured_in or earlier
                    new[key] = KeptCosts(seconds=seconds, measured=measured)
        if not new:
            return
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            file = self._file.with_suffix(".new")
            file.write_text(_File(known | new).model_dump_json(), encoding="utf-8")
            file.replace(self._file)

    def _read(self) -> dict[str, KeptCosts]:
        try:
            return _File.model_validate_json(self._file.read_bytes()).root
        except (OSError, ValidationError):
            return {}

    def _keys(self, models: Sequence[Path]) -> list[tuple[str, str]]:
        """The name of each of `models` that is there, and its key as it is loaded by default."""
        keys = []
        for path in models:
            with contextlib.suppress(OSError):
                keys.append((path.name, f"{path.name} {path.stat().st_size} {self._machine}"))
        return keys

    @cached_property
    def _machine(self) -> str:
        """What passes run on: files may be shared by computers."""
        return f"{self._n_threads or default_threads()} {build_key()}"


def _is_of(name: str, model: str) -> bool:
    """Whether `name` is that of `model`, with or without a way of loading after it."""
    return name == model or name.startswith(f"{model} ")


def _possible(learned: PassCosts) -> dict[int, float]:
    return {width: s for width, s in learned.as_dict().items() if 0 < s < _LONGEST_S}
