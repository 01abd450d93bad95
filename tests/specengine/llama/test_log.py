"""llama.cpp logs pieces of lines; a record is a whole one."""

from __future__ import annotations

import logging

import pytest

from specengine.llama.log import LogLines

DEBUG, INFO, WARNING, ERROR, CONTINUE = 1, 2, 3, 4, 5


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> LogLines:
    caplog.set_level(logging.DEBUG, "specengine.llama.test")
    return LogLines(logging.getLogger("specengine.llama.test"))


def records(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_continued_pieces_are_one_record(lines: LogLines, caplog: pytest.LogCaptureFixture) -> None:
    lines.write(INFO, b"loading ")
    lines.write(CONTINUE, b"..")
    lines.write(CONTINUE, b". done\n")
    lines.write(DEBUG, b"next\n")
    assert records(caplog) == [(logging.INFO, "loading ... done"), (logging.DEBUG, "next")]


def test_a_piece_with_several_lines_is_several_records(
    lines: LogLines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.write(WARNING, b"one\n\ntwo 100%\nthr")
    lines.write(ERROR, b"four \xff\n")
    assert records(caplog) == [
        (logging.WARNING, "one"),
        (logging.WARNING, "two 100%"),
        (logging.WARNING, "thr"),
        (logging.ERROR, "four \N{REPLACEMENT CHARACTER}"),
    ]


def test_only_errors_are_kept_and_only_the_last_ones(lines: LogLines) -> None:
    lines.write(WARNING, b"careful\n")
    for number in range(20):
        lines.write(ERROR, b"error %d\n" % number)
    assert list(lines.errors) == [f"error {number}" for number in range(4, 20)]
