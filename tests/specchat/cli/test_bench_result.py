"""A run is kept before it is shown, and whatever was kept before it stays until then."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel
from rich.table import Table

from specchat.benchmark.errors import BenchmarkError
from specchat.cli.bench_result import ResultFile, finish


class Measured(BaseModel):
    name: str = "a"


def table_of(report: Measured) -> Table:
    table = Table()
    table.add_column()
    table.add_row(report.name)
    return table


def broken(report: Measured) -> str:
    raise BrokenPipeError


def test_it_is_kept_though_nobody_can_be_shown_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(BrokenPipeError):
        finish(Measured(), broken, ResultFile(path), as_json=False)
    assert Measured.model_validate_json(path.read_bytes()) == Measured()


def test_it_is_shown_though_it_cannot_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    result = ResultFile(folder / "x.json")
    folder.rmdir()
    with pytest.raises(BenchmarkError, match=r"x\.json cannot be written"):
        finish(Measured(), table_of, result, as_json=True)
    assert '"a"' in capsys.readouterr().out


@pytest.mark.parametrize("name", ["[/b]", "[red]x[/red]", ":smile:"])
def test_names_are_shown_as_they_are_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    finish(Measured(name=name), table_of, ResultFile(None), as_json=False)
    assert name in capsys.readouterr().out


def test_whether_it_can_be_written_is_found_out_without_a_trace(tmp_path: Path) -> None:
    ResultFile(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []
    for path, cause in ((tmp_path, "not a regular file"), (tmp_path / "no" / "x.json", "No such")):
        with pytest.raises(BenchmarkError, match=f"cannot be written: .*{cause}"):
            ResultFile(path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("before", encoding="utf-8")
    try:
        link.symlink_to(real)
    except OSError:
        pytest.skip("links cannot be made here")
    result = ResultFile(link)
    assert real.read_text(encoding="utf-8") == "before"
    result.write(Measured())
    assert link.readlink() == real
    assert Measured.model_validate_json(real.read_bytes()) == Measured()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]
