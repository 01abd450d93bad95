"""The table of kernels: what its rows say, and that a row can be measured."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernel_table
from kernel_table import Count, Row, Way, head, line, measure


def test_a_row_tells_the_step_the_near_ties_and_what_passes_cost() -> None:
    sound = Count(others=0, tokens=288, widest=0)
    tied = Count(others=2, tokens=280, widest=0.0312)
    title, rule = head()
    assert title.startswith("| kernels | model | step | near-ties greedy | at temperature 1 | v(2)")
    assert rule.count("---") == title.count("|") - 1
    costed = Row(model="m", width_step=8, greedy=sound, sampled=tied, ratios={2: 1.5, 8: 4})
    unstable = Row(model="m", width_step=None, greedy=tied, sampled=sound, ratios={})
    assert line("sse42", costed) == (
        "| sse42 | m | 8 | 0 of 288 | 2 of 280, widest 0.031 | 1.50 | – | 4.00 |"
    )
    assert line("zen4", unstable) == (
        "| zen4 | m | none | 2 of 280, widest 0.031 | 0 of 288 | – | – | – |"
    )


def test_the_names_of_native_ways_are_no_kernels() -> None:
    ways = kernel_table._ways(["haswell", "native, one thread"])
    assert list(ways.values()) == [Way(kernels="haswell"), Way(n_threads=1)]


@pytest.mark.slow
def test_a_model_is_measured(tiny_model: Path) -> None:
    row = measure(tiny_model, tiny_model, Way(), max_tokens=2, timed=False)
    assert row.model == tiny_model.stem
    assert row.width_step in (None, 1, 2, 4, 8, 16)
    for count in (row.greedy, row.sampled):
        assert 0 <= count.others <= count.tokens <= 2 * len(kernel_table.TEXTS)
        assert count.widest <= 0.75
    assert Row.model_validate_json(row.model_dump_json()) == row
