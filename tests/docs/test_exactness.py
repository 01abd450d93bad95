"""The case table of docs/exactness.md says what the tests are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "specengine"
ROWS = dict(
    re.findall(
        r"^\| (\d+) \|.*\| (.*) \|$",
        (ROOT / "docs" / "exactness.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)


def naming(case: int) -> set[Path]:
    """The test files that have a test for `case`."""
    return {
        file
        for file in (ROOT / "tests").rglob("test_*.py")
        if re.search(
            rf"^(async )?(def )?test_(case_\d+_)*case_{case}_", file.read_text("utf-8"), re.M
        )
    }


def test_there_are_sixteen_cases() -> None:
    assert list(map(int, ROWS)) == list(range(1, 17))


@pytest.mark.parametrize("case", range(1, 17))
def test_a_row_names_the_files_that_name_the_case(case: int) -> None:
    told = {(TESTS / name).resolve() for name in re.findall(r"`([^`]+\.py)`", ROWS[str(case)])}
    assert told == naming(case) != set()
