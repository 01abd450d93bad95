"""The Debian package: what it says of itself, and where it puts what."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bundles import control, make_deb
from package import version
from specchat.version import __version__


def fields(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith(" ")]
    return dict(line.split(": ", 1) for line in lines)


def test_version_and_floor_are_those_of_the_build() -> None:
    said = fields(control(version(), "amd64", "2.36", 1234, {}))
    assert said["Version"] == __version__
    assert said["Depends"] == "libc6 (>= 2.36)"
    assert (said["Architecture"], said["Installed-Size"]) == ("amd64", "1234")


@pytest.mark.parametrize(
    ("environ", "maintainer"),
    [
        ({}, "specchat"),
        ({"DEBEMAIL": "ada@example.org"}, "specchat <ada@example.org>"),
        (
            {"DEBFULLNAME": "Ada Lovelace", "DEBEMAIL": "ada@example.org"},
            "Ada Lovelace <ada@example.org>",
        ),
    ],
)
def test_the_maintainer_is_who_makes_it_and_no_invented_address(
    environ: dict[str, str], maintainer: str
) -> None:
    assert fields(control("1", "amd64", "2.36", 1, environ))["Maintainer"] == maintainer


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing")
def test_dpkg_reads_the_package_without_a_complaint(tmp_path: Path) -> None:
    folder = tmp_path / "specchat"
    folder.mkdir()
    (folder / "specchat").write_text("#!/bin/sh\n")
    (folder / "specchat").chmod(0o700)
    deb = make_deb(folder, "0.1.0", "2.36", tmp_path)
    read = ["dpkg-deb", "--field", str(deb), "Package", "Version", "Maintainer"]
    done = subprocess.run(read, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert fields(done.stdout)["Version"] == "0.1.0"
    subprocess.run(["dpkg-deb", "-x", str(deb), str(tmp_path / "root")], check=True)
    program = tmp_path / "root/usr/bin/specchat"
    assert program.readlink() == Path("../lib/specchat/specchat")
    assert program.stat().st_mode & 0o777 == 0o755
