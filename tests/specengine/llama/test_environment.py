"""What is set before llama.cpp is loaded, and that its OpenMP really reads it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from specengine.llama import environment


@pytest.mark.parametrize(
    ("environ", "additions"),
    [
        ({}, {"GOMP_SPINCOUNT": "2000", "GGML_NO_BACKTRACE": "1"}),
        ({"OMP_WAIT_POLICY": "active"}, {"GGML_NO_BACKTRACE": "1"}),
        ({"GOMP_SPINCOUNT": "7", "GGML_NO_BACKTRACE": "0"}, {}),
    ],
)
def test_a_persons_own_choice_stands(environ: dict[str, str], additions: dict[str, str]) -> None:
    assert environment.settings(environ) == additions


@pytest.mark.skipif(sys.platform != "linux", reason="GCC's OpenMP")
def test_setting_it_in_the_running_process_is_soon_enough() -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP", "OMP"))}
    child = subprocess.run(
        [sys.executable, "-c", "from specengine.llama import library; library.load()"],
        env={**environ, "OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "GOMP_" not in child.stderr:
        pytest.skip("this llama.cpp was not built with GCC's OpenMP")
    assert "GOMP_SPINCOUNT = '2000'" in child.stderr
