"""The drafter of CONTRIBUTING.md drafts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import environment
from support.smollm import UNENDING

PAGE = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text("utf-8")
RUN = """
from specchat.__main__ import main
from specengine.drafters.registry import DRAFTERS, kept
{drafter}
DRAFTERS.update({{{line}}})
main()
"""


@pytest.mark.usefixtures("tiny_model")
def test_a_drafter_of_ten_lines_and_a_line_of_the_registry_draft(tmp_path: Path) -> None:
    drafter, line = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    program = RUN.format(drafter=drafter, line=line.strip())
    asked = ("ask", "Once upon a time", "--profile", "tiny", "--max-tokens", "8", "--json")
    unending = [f"--logit-bias={token}={bias}" for token, bias in UNENDING.items()]
    result = subprocess.run(
        [sys.executable, "-c", program, *asked, *unending, "--draft=repeat", "--draft-length=2"],
        capture_output=True,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    speculation = json.loads(result.stdout)["speculation"]
    assert set(speculation["by_drafter"]) == {"repeat"}
    assert speculation["by_drafter"]["repeat"]["drafted"] == speculation["drafted"] > 0
