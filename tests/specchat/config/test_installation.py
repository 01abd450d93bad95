"""Whoever installed the program is recognized, and gets a command that passes caches by."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from specchat.config import installation
from specchat.config.installation import Installer, explain_probe, installer, rebuild_command
from specengine.llama import library
from specengine.llama.probe import ProbeResult


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("pipx_metadata.json", Installer.PIPX),
        ("uv-receipt.toml", Installer.UV_TOOL),
        (".ready-runtime", Installer.CHECKOUT),
        ("pyvenv.cfg", Installer.PIP),
    ],
)
def test_the_environment_tells_its_maker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, expected: Installer
) -> None:
    monkeypatch.setattr(installation, "_written_by_uv", lambda: False)
    (tmp_path / file).write_text("")
    assert installer(tmp_path) is expected


def test_uv_and_packaged_programs_are_recognized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_written_by_uv", lambda: True)
    assert installer(tmp_path) is Installer.UV
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert installer(tmp_path) is Installer.FROZEN


@pytest.mark.parametrize("by", [Installer.PIP, Installer.PIPX, Installer.UV, Installer.UV_TOOL])
def test_commands_pass_caches_by(by: Installer) -> None:
    command = rebuild_command(by, {"CC": "clang", "CFLAGS": "-O2 -g"})
    assert command.startswith("CC=clang CFLAGS='-O2 -g' ")
    assert "--no-cache" in command
    assert "llama-cpp-python" in command


def test_a_packaged_program_has_nothing_to_build() -> None:
    assert "CC" not in rebuild_command(Installer.FROZEN, {"CC": "clang"})


def test_what_helps_is_this_installers_command(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = ProbeResult(
        works=False, use_extra_bufts=False, finding="it dies", remedy=library.REBUILD
    )
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert explain_probe(failed) == f"it dies; to fix it: {rebuild_command(Installer.FROZEN)}"
    assert explain_probe(failed.model_copy(update={"remedy": ""})) == "it dies"
