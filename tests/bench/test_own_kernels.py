from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import own_kernels
from specengine.llama import library
from specengine.llama.backends import OWN_KERNELS, packed_layouts


@pytest.mark.slow
def test_both_kinds_of_kernels_are_measured_or_their_absence_is_said(tiny_model: Path) -> None:
    command = [sys.executable, own_kernels.__file__, str(tiny_model), "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    if OWN_KERNELS not in packed_layouts(library.load()):
        assert "has no kernels of specchat's" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    head, _, *rows = (line.split(" | ") for line in done.stdout.splitlines())
    assert len(head) == len(own_kernels.WIDTHS) + 2
    assert [row[0] for row in rows] == ["| llama.cpp", "| specchat"]
    assert all(float(ms) > 0 for row in rows for ms in row[1:-1])
