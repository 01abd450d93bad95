"""The page of results says what the files beside it say."""

from pathlib import Path

import pytest

from remote.report import HybridReport
from specchat.benchmark.report import Report
from tables import reports, table

RESULTS = Path(__file__).parents[2] / "bench" / "results"
REPORTS = dict(reports(sorted(RESULTS.glob("*.json"))))


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_the_page_has_every_row_of_the_report(file: Path) -> None:
    page = (RESULTS / "README.md").read_text(encoding="utf-8").splitlines()
    start = page.index(f"`{file.name}`")
    rows = table(REPORTS[file])
    assert page[start + 2 : start + 2 + len(rows)] == rows


def test_every_file_stands_on_the_page() -> None:
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in RESULTS.glob("*.json") if f"`{file.name}`" not in page] == []


def test_every_file_is_a_report_that_is_still_understood() -> None:
    for file in RESULTS.glob("*.json"):
        assert file in REPORTS or HybridReport.model_validate_json(file.read_bytes()).rows


def test_a_row_has_the_median_the_worst_and_the_peers() -> None:
    [report] = [r for file, r in REPORTS.items() if file.stem.endswith("laptop-long")]
    assert table(report)[2] == (
        "| long | 4 | 1.78 (1.20) | 36% | 1.83 (1.14) | 2.96 (2.45) | 1.3% | 1.8% |"
    )


def test_a_file_of_another_kind_is_left_out(tmp_path: Path) -> None:
    other = tmp_path / "hybrid.json"
    other.write_text("{}", encoding="utf-8")
    assert list(reports([other])) == []


def test_conditions_are_named_where_there_are_several() -> None:
    report: Report = next(r for f, r in REPORTS.items() if f.stem.endswith("laptop-busy"))
    assert any(row.startswith("| greedy, busy neighbour: chat |") for row in table(report))
