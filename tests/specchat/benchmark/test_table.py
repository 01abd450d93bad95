"""What a person reads of a report."""

from rich.console import Console

from specchat.benchmark.report import Report
from specchat.benchmark.table import render
from support.samples import report, sample


def text(report: Report, width: int = 200) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(render(report))
    return capture.get()


def lines_with(report: Report, *words: str) -> list[str]:
    return [line for line in text(report).splitlines() if all(word in line for word in words)]


SAMPLES = [
    sample("alone", 10),
    sample("adaptive", 15, drafted=10, accepted=4, target_passes=50),
    sample("llama-server", 12),
    sample("alone", 10, category="prose", prompt="prose-1"),
    sample("adaptive", 8, category="prose", prompt="prose-1"),
]


def test_a_row_has_speed_ratio_spread_worst_prompt_and_share_of_the_bound() -> None:
    [row] = lines_with(report(SAMPLES), "adaptive", "15.0")
    assert row.split() == ["adaptive", "15.0", "1.50", "1.50–1.50", "1.50", "code-1", "75%"]


def test_a_row_has_what_was_drafted_and_what_it_cost() -> None:
    [row] = lines_with(report(SAMPLES), "adaptive", "40%", "2.00")
    assert row.split() == ["adaptive", "40%", "2.00", "0.50", "s", "1.0%", "100%"]


def test_it_fits_into_a_terminal_of_80_columns() -> None:
    samples = [sample("llama-server-alone", 95.25, category="summary", prompt="summary-1")]
    samples += [sample("alone", 10.0, category="summary", prompt="summary-1")]
    assert "…" not in text(report([*SAMPLES, *samples]), width=80)


def test_a_padded_target_is_called_padded() -> None:
    assert lines_with(report(SAMPLES), "depth-padded x4")


def test_the_controller_is_compared_with_the_peer_by_category_and_in_all() -> None:
    shown = text(report(SAMPLES))
    rows = [line.split() for line in shown[shown.index("over the peer") :].splitlines()]
    assert ["llama-server", "code", "1.25", "1.25–1.25", "1.25", "code-1"] in rows
    assert ["llama-server", "all", "1.25", "1.25–1.25", "1.25", "code-1"] in rows


def test_the_plot_grows_to_the_right_of_one_for_gains_and_to_the_left_for_losses() -> None:
    plot = lines_with(report(SAMPLES), "█")
    [gain] = [line for line in plot if line.endswith("1.50")]
    [loss] = [line for line in plot if line.endswith("0.80")]
    assert gain.count("█") > loss.count("█") > 0
    assert loss.index("█") < gain.index("█")


def test_energy_has_a_column_where_the_platform_tells() -> None:
    assert "J/token" not in text(report(SAMPLES))
    told = text(report([sample("alone", 10, energy_j=20.2)]))
    assert "J/token" in told
    assert "0.20" in told


def test_a_run_that_was_stopped_says_so() -> None:
    assert "stopped early" in text(report(SAMPLES, complete=False))
    assert "stopped early" not in text(report(SAMPLES))


def test_a_run_stopped_before_its_first_answer_can_be_shown() -> None:
    assert "Some CPU" in text(report([], complete=False))


def test_json_is_read_back_as_it_was() -> None:
    before = report(SAMPLES)
    assert Report.model_validate_json(before.model_dump_json()) == before
