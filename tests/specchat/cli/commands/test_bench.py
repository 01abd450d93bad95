"""`specchat bench` as a child process, on the embedded default model."""

import json
import signal
import sys
import threading
from pathlib import Path

import pytest

from specchat.benchmark.report import Report
from support.command_line import refusal, specchat, started

pytestmark = pytest.mark.usefixtures("tiny_model")

LIMIT_S = 600.0
"""However slow the machine is; what hangs ends then."""

TINY = ("bench", "--profile", "tiny", "--max-tokens", "6", "--ctx", "512")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def prompts(home: Path) -> Path:
    file = home / "prompts.jsonl"
    lines = [
        {"id": "a-1", "category": "a", "prompt": "What is the capital of France?"},
        {"id": "a-2", "category": "a", "turns": ["Say: red green blue red green.", "Again."]},
        {"id": "b-1", "category": "b", "prompt": "Name a colour."},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return file


@pytest.mark.slow
def test_json_is_a_whole_report(home: Path, prompts: Path, tiny_model: Path) -> None:
    output = home / "report.json"
    result = specchat(
        home,
        *(*TINY, "--prompts", str(prompts), "--repeat", "1", "--json", "--output", str(output)),
        *("--side", "adaptive", "--side", "lookup-2", "--busy", "--reproducible"),
    )
    assert result.returncode == 0, result.stderr.decode()
    report = Report.model_validate_json(result.stdout)
    assert Report.model_validate_json(output.read_bytes()) == report
    assert report.complete
    assert report.target.file == tiny_model.name
    assert len(report.target.sha256) == 64
    assert report.bound >= 1
    assert set(report.target.pass_s) == set(range(1, 18))
    assert report.machine.openmp
    assert [side.name for side in report.sides] == ["alone", "adaptive", "lookup-2"]
    # Two temperatures: 3 sides, 4 turns; two rows: 2 sides, the first prompts of a and b.
    assert len(report.samples) == 2 * 3 * 4 + 2 * 2 * 2
    assert all(1 <= sample.completion_tokens <= 6 for sample in report.samples)
    texts = {(s.prompt, s.turn, s.digest) for s in report.samples if s.condition == "greedy"}
    assert len(texts) == 4, "greedy and reproducible, all sides say the same"
    assert {c.category for c in report.comparisons if c.condition == "greedy"} == {"a", "b", None}


def test_tables_for_a_person_and_progress_beside_them(home: Path, prompts: Path) -> None:
    result = specchat(home, *TINY, "--prompts", str(prompts), "--quick")
    assert result.returncode == 0, result.stderr.decode()
    shown = result.stdout.decode()
    assert "Q4_1" in shown
    assert "× alone" in shown
    assert "lookup-7" in shown
    assert "of the best fixed draft length: " in shown
    assert "█" in shown
    assert "greedy, a-1, repeat 1" in result.stderr.decode()
    assert "a-2" not in result.stderr.decode(), "quick takes one prompt of each category"


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one child")
def test_ctrl_c_keeps_what_was_measured(home: Path, prompts: Path) -> None:
    little = ("--side", "lookup-2", "--temperature", "0", "--prompts", str(prompts), "--json")
    with started(home, *TINY, *little) as (process, _):
        assert process.stderr is not None
        limit = threading.Timer(LIMIT_S, process.kill)  # which ends the waiting, too
        limit.start()
        for line in process.stderr:
            if b"repeat 2" in line:
                process.send_signal(signal.SIGINT)
                break
        output, errors = process.communicate()
        limit.cancel()
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    report = Report.model_validate_json(output)
    assert not report.complete
    assert {sample.prompt for sample in report.samples} == {"a-1", "a-2", "b-1"}
    assert report.comparisons


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("--categories", "cod"), "did you mean code?"),
        (("--prompts", "none.jsonl"), "none.jsonl cannot be read"),
        (("--temperature", "-1"), "temperature"),
        (("--target", "http://somewhere:8080"), "http://somewhere:8080 is remote"),
        (("--output", "no/such/folder/x.json"), "cannot be written"),
        (("--output", "."), "cannot be written"),
    ],
)
def test_what_cannot_be_measured_is_said_before_any_model_is_loaded(
    home: Path, arguments: tuple[str, ...], cause: str
) -> None:
    assert cause in refusal(home, "bench", *arguments)


def test_a_side_that_needs_a_draft_model_is_refused(home: Path, prompts: Path) -> None:
    without = ("--draft", "lookup", "--side", "model-4")
    result = specchat(home, *TINY, "--prompts", str(prompts), *without)
    assert result.returncode == 1
    assert "--draft" in result.stderr.decode()
