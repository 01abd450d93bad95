"""The pages on installing: commands name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpu as gpus
from specengine.llama.library import LLAMA_CPP_PYTHON_VERSION

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / name for name in ("install.md", "packaging.md", "troubleshooting.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_gpus_and_the_version_that_there_are(page: Path) -> None:
    text = page.read_text("utf-8")
    assert set(re.findall(r"GPU=(\w+)", text)) <= set(gpus.TOOLKITS)
    assert set(re.findall(r"llama-cpp-python==([\d.]+)", text)) <= {LLAMA_CPP_PYTHON_VERSION}


def test_install_leads_to_what_to_do_when_it_fails() -> None:
    assert "(troubleshooting.md)" in (DOCS / "install.md").read_text("utf-8")
    assert "(docs/troubleshooting.md)" in (DOCS.parent / "README.md").read_text("utf-8")
