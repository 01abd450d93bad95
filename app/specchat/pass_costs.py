"""Keeps what passes cost from one run to the next: measured once per model, build, threads and
place: the layers that are on a GPU.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, RootModel, ValidationError

from specengine.control.costs import PassCosts
from specengine.llama.library import LLAMA_CPP_PYTHON_VERSION

Width = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, lt=3600)]


class _Costs(RootModel[dict[str, dict[Width, Seconds]]]):
    """Seconds by width, under a key for each model."""


class CostStore:
    """One small JSON file; what cannot be read is measured again."""

    def __init__(self, file: Path, n_threads: int | None) -> None:
        self._file = file
        self._n_threads = n_threads

    def load(self, models: Sequence[Path]) -> dict[str, dict[int, float]]:
        """What is known of `models` wherever they were, by `placement.costs_name`."""
        known = self._read()
        return {
            path.name + key.removeprefix(own): costs
            for path in models
            for own in [self._key(path)]
            for key, costs in known.items()
            if _is_of(key, own)
        }

    def save(self, models: Sequence[Path], costs: Mapping[str, PassCosts]) -> None:
        """Remember `costs` of `models`, by `placement.costs_name`. A folder that cannot be written
        costs a measurement.
        """
        known = self._read()
        with contextlib.suppress(OSError):
            for path in models:
                own = self._key(path)
                for name, learned in costs.items():
                    if _is_of(name, path.name):
                        known[own + name.removeprefix(path.name)] = learned.as_dict()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(known), encoding="utf-8")
            new.replace(self._file)

    def _read(self) -> dict[str, dict[int, float]]:
        try:
            return _Costs.model_validate_json(self._file.read_bytes()).root
        except (OSError, ValidationError):
            return {}

    def _key(self, path: Path) -> str:
        """Of a model on the CPU."""
        stat = path.stat()
        threads = self._n_threads or "auto"
        return f"{path.name} {stat.st_size} {threads} {LLAMA_CPP_PYTHON_VERSION}"


def _is_of(name: str, model: str) -> bool:
    """Whether `name` is that of `model`, with or without a place after it."""
    return name == model or name.startswith(f"{model} ")
