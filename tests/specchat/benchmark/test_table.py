"""What a person reads of a report."""

from rich.console import Console

from specchat.benchmark.report import Report
from specchat.benchmark.table import render
from support.samples import report, sample


def text(report: Report) -> str:
    console = Console(width=200, force_terminal=False)
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


def test_a_row_has_speed_ratio_worst_prompt_bound_and_acceptance() -> None:
    [row, *_] = lines_with(report(SAMPLES), "adaptive", "15.0")
    cells = row.split()
    assert cells[:6] == ["adaptive", "15.0", "1.50", "1.50–1.50", "1.50", "code-1"]
    assert cells[6:10] == ["75%", "40%", "2.00", "0.50"]
    assert cells[-2:] == ["1.0%", "100%"]


def test_a_padded_target_is_called_padded() -> None:
    assert lines_with(report(SAMPLES), "depth-padded x4")


def test_the_controller_is_compared_with_the_peer_by_category_and_in_all() -> None:
    rows = [line.split() for line in lines_with(report(SAMPLES), "greedy", "llama-server")]
    assert ["greedy", "llama-server", "code", "1.25", "1.25–1.25", "1.25", "code-1"] in rows
    assert ["greedy", "llama-server", "all", "1.25", "1.25–1.25", "1.25", "code-1"] in rows


def test_the_plot_grows_to_the_right_of_one_for_gains_and_to_the_left_for_losses() -> None:
    shown = text(report(SAMPLES))
    plot = shown[shown.index("greedy, × alone") :].splitlines()
    [gain] = [line for line in plot if "1.50" in line and "█" in line]
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
