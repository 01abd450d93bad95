"""Links between the pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = (".", "engine", "engine/specengine", "app/specchat", "tests/specengine")
FOLDERS = (".", "docs", "bench", "bench/results", "engine/training")
PAGES = [page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md"))]


def text_of(page: Path) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def test_the_readme_leads_to_every_page_of_the_docs() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#\s]+)", text_of(ROOT / "README.md")))
    assert linked >= {f"docs/{page.name}" for page in PAGES if page.parent.name == "docs"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_modules_that_are_named_are_there(page: Path) -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)", text_of(page)):
        assert any((ROOT / place / name).exists() for place in PLACES), name
