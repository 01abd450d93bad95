"""Which prompts are measured."""

from pathlib import Path

import pytest

from specchat.benchmark.errors import BenchmarkError
from specchat.benchmark.suite import first_of_each_category, load_suite


def write(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_the_suite_has_eight_categories_of_six_prompts_and_our_chats() -> None:
    items = load_suite()
    counts = {c: sum(i.category == c for i in items) for c in {i.category for i in items}}
    assert counts.pop("turns") == 3
    assert counts.pop("long") == 2
    assert len(counts) == 8
    assert set(counts.values()) == {6}
    assert {len(i.turns) for i in items if i.category == "turns"} == {3}
    assert "Đọc dữ liệu" in next(i for i in items if i.id == "edit-5").turns[0]


def test_categories_are_chosen_by_name() -> None:
    assert {i.category for i in load_suite(categories=["vi", "long"])} == {"vi", "long"}
    with pytest.raises(BenchmarkError, match="did you mean prose"):
        load_suite(categories=["pros"])


def test_an_own_file_takes_the_place_of_the_suite(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '{"id": "a", "category": "x", "prompt": "one"}',
        "",
        '{"id": "b", "category": "x", "turns": ["one", "two"]}',
        '{"id": "c", "category": "y", "prompt": "three"}',
    )
    items = load_suite(file)
    assert [i.turns for i in items] == [("one",), ("one", "two"), ("three",)]
    assert [i.id for i in first_of_each_category(items)] == ["a", "c"]
    assert [i.id for i in first_of_each_category(items, 2)] == ["a", "b", "c"]


def test_a_line_ends_where_json_lines_do(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '\ufeff{"id": "a", "category": "x", "prompt": "one\u2028two\x85three"}\r',
        '{"id": "b", "category": "x", "prompt": "four"}',
    )
    assert [i.turns for i in load_suite(file)] == [("one\u2028two\x85three",), ("four",)]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{", "line 2: .*JSON"),
        ('{"id": "b", "category": "x"}', "line 2: there is no prompt"),
        ('{"id": "b", "category": "x", "prompt": " "}', "line 2: there is no prompt"),
        ('{"id": "a", "category": "x", "prompt": "again"}', "line 2: there is another 'a'"),
        ('{"id": "b", "prompt": "one"}', "line 2: category"),
        ('{"id": "b", "category": "x", "prompt": "p", "promt": ""}', "line 2: promt"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(
    tmp_path: Path, line: str, cause: str
) -> None:
    file = write(tmp_path, '{"id": "a", "category": "x", "prompt": "one"}', line)
    with pytest.raises(BenchmarkError, match=cause):
        load_suite(file)


def test_a_file_that_is_not_there_or_empty_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="cannot be read"):
        load_suite(tmp_path / "none.jsonl")
    with pytest.raises(BenchmarkError, match="no prompts"):
        load_suite(write(tmp_path, "", ""))
