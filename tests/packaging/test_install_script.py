"""The installer inside the self-extracting file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "desktop" / "install.sh"


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """What the file unpacks, with a program that says its name."""
    program = tmp_path / "unpacked" / "specchat" / "specchat"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho first\n")
    program.chmod(0o755)
    return tmp_path / "unpacked"


def install(unpacked: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(SCRIPT), *arguments],
        cwd=unpacked,
        env={"HOME": str(unpacked.parent / "a home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def answer(program: Path) -> str:
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


def test_it_installs_into_the_home_and_a_newer_one_replaces_it(unpacked: Path) -> None:
    program = unpacked.parent / "a home/.local/bin/specchat"
    done = install(unpacked)
    assert f"Start it with: {program}\n" in done.stdout
    assert answer(program) == "first\n"
    (program.parent.parent / "lib/specchat/left over").touch()
    (unpacked / "specchat/specchat").write_text("#!/bin/sh\necho second\n")
    assert install(unpacked).returncode == 0
    assert answer(program) == "second\n"
    assert [file.name for file in (program.parent.parent / "lib").rglob("*")] == [
        *("specchat", "specchat")
    ]


def test_the_folder_can_be_chosen(unpacked: Path) -> None:
    prefix = unpacked.parent / "apps"
    assert install(unpacked, str(prefix)).returncode == 0
    assert answer(prefix / "bin/specchat") == "first\n"


def test_a_folder_without_a_root_would_lie_where_the_file_unpacks_itself(unpacked: Path) -> None:
    done = install(unpacked, "apps")
    assert done.returncode == 2
    assert "apps" in done.stderr
    assert not (unpacked / "apps").exists()
