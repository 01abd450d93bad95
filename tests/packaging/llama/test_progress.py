"""What is told of a build of minutes."""

from __future__ import annotations

import io

import pytest

from progress import Progress, stage_of


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("  [34/83] /usr/bin/g++ -DGGML_BUILD ...\n", ("compiling", 34, 83)),
        ("  *** Configuring CMake...\n", ("configuring", 0, 0)),
        (
            "Collecting llama-cpp-python==0.3.36 (from -r source.txt)\n",
            ("fetching the source", 0, 0),
        ),
        ("  Installing build dependencies: started\n", ("fetching the build tools", 0, 0)),
        ("  note: see declaration of x[3/4]\n", None),
        ("-- Detecting C compiler ABI info\n", None),
    ],
)
def test_stage_of_a_line(line: str, stage: tuple[str, int, int] | None) -> None:
    assert stage_of(line) == stage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_sees_one_line_that_changes_and_goes() -> None:
    out = Terminal()
    times = iter([0.0, 65.0, 66.0])
    progress = Progress(out, clock=lambda: next(times))
    progress.show("compiling", 1, 83)
    progress.show("compiling", 2, 83)
    progress.close()
    assert out.getvalue() == (
        "\r\x1b[Kllama.cpp: compiling 1/83 · 1:05\r\x1b[Kllama.cpp: compiling 2/83 · 1:06\r\x1b[K"
    )


def test_a_log_gets_a_line_for_each_tenth() -> None:
    out = io.StringIO()
    progress = Progress(out, clock=lambda: 0.0)
    progress.show("configuring", 0, 0)
    for step in range(1, 84):
        progress.show("compiling", step, 83)
    lines = out.getvalue().splitlines()
    assert lines[:3] == [
        "llama.cpp: configuring (0:00)",
        "llama.cpp: compiling 1/83 (0:00)",
        "llama.cpp: compiling 9/83 (0:00)",
    ]
    assert len(lines) == 12
    assert "\x1b" not in out.getvalue()
