"""The picture of docs/architecture.md shows the rooms in the order that the contracts keep."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
LAYERS = {
    contract["containers"][0]: [layer.split(" | ") for layer in contract["layers"]]
    for contract in CONTRACTS
    if contract["type"] == "layers"
}


def drawn(package: str) -> list[list[str]]:
    """The rooms of `package` as the page draws them, from the top down."""
    lines = re.search(r"```\n(specchat .*?)```", PAGE, re.DOTALL)
    assert lines is not None
    head, _, *rows = lines[1].splitlines()
    column = head.index("specengine")
    parts = [row[:column] if package == "specchat" else row[column:] for row in rows]
    rooms = [re.split(r"\s{2,}", part.strip())[0].split() for part in parts]
    return [names for names in rooms if names]


@pytest.mark.parametrize("package", LAYERS)
def test_the_rooms_are_drawn_in_the_order_that_is_kept(package: str) -> None:
    assert drawn(package) == LAYERS[package]


@pytest.mark.parametrize(("package", "folder"), [("specengine", "engine"), ("specchat", "app")])
def test_every_room_is_in_the_order(package: str, folder: str) -> None:
    rooms = {name for layer in LAYERS[package] for name in layer}
    found = {
        path.stem if path.is_file() else path.name
        for path in (ROOT / folder / package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {"__init__"} == rooms
