"""What the probe makes of children that decode, lie, die and hang, and what it remembers."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from specengine.llama import library, probe
from specengine.llama.child import ChildEnd, ended
from specengine.llama.cpu import Cpu
from specengine.llama.probe import build_key, judge

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")

STAGES = ("plain", "extra")
LOGITS = [1.0, -2.0, 0.5, 3.0]
PLAIN = json.dumps({"stage": "plain", "logits": LOGITS})
EXTRA = json.dumps({"stage": "extra", "logits": [1.01, -2.0, 0.5, 3.0]})
WRONG = json.dumps({"stage": "extra", "logits": [3.0, 0.5, -2.0, 1.0]})
DIE = "import os, signal; os.kill(os.getpid(), signal.{})"


def child(*steps: str) -> list[str]:
    """A child that prints lines (JSON) and does things (Python) in turn."""
    code = [f"print({step!r}, flush=True)" if step.startswith("{") else step for step in steps]
    return [sys.executable, "-c", "\n".join(code)]


def test_the_real_library_is_judged_and_the_parent_does_not_load_it(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from specengine.llama.probe import probe; "
        f"print(probe(pathlib.Path({str(tmp_path)!r})).works, 'llama_cpp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"


def test_a_child_that_decodes_both_ways(tmp_path: Path) -> None:
    result = probe.probe(tmp_path, command=child(PLAIN, EXTRA))
    assert result.works
    assert result.use_extra_bufts


@posix
def test_fast_kernels_that_die_are_left_out(tmp_path: Path) -> None:
    result = probe.probe(tmp_path, command=child(PLAIN, DIE.format("SIGILL")))
    assert result.works
    assert not result.use_extra_bufts
    assert "crashes with illegal instruction (SIGILL)" in result.detail
    assert library.REBUILD in result.detail


def test_fast_kernels_that_are_wrong_are_left_out(tmp_path: Path) -> None:
    result = probe.probe(tmp_path, command=child(PLAIN, WRONG))
    assert (result.works, result.use_extra_bufts) == (True, False)
    assert "wrong numbers" in result.detail


@posix
def test_a_library_that_dies_at_once_does_not_work(tmp_path: Path) -> None:
    result = probe.probe(tmp_path, command=child(DIE.format("SIGILL")))
    assert (result.works, result.use_extra_bufts) == (False, False)
    assert result.detail == (
        "llama.cpp crashes with illegal instruction (SIGILL) on this CPU; "
        f"to fix it: {library.REBUILD}"
    )


def test_a_child_that_hangs_is_ended_and_what_it_printed_counts(tmp_path: Path) -> None:
    hang = "import time; time.sleep(60)"
    result = probe.probe(tmp_path, command=child(PLAIN, hang), timeout_s=2)
    assert (result.works, result.use_extra_bufts) == (True, False)
    assert "does not answer within 2 s" in result.detail
    result = probe.probe(tmp_path, command=child(hang), timeout_s=1)
    assert not result.works


def test_the_childs_own_last_words_are_the_reason(tmp_path: Path) -> None:
    result = probe.probe(tmp_path, command=child("raise SystemExit('no such; do this')"))
    assert not result.works
    assert result.detail == "llama.cpp cannot be tested: no such; do this"
    result = probe.probe(tmp_path, command=[str(tmp_path / "missing")])
    assert not result.works
    assert "cannot be tested" in result.detail


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_wrong(value: float) -> None:
    bad = [json.dumps({"stage": each, "logits": [*LOGITS[:3], value]}) for each in STAGES]
    assert not judge(ChildEnd("\n".join(bad).encode())).works
    assert not judge(ChildEnd(f"{PLAIN}\n{bad[1]}".encode())).use_extra_bufts


def test_a_line_that_was_cut_off_is_no_answer(tmp_path: Path) -> None:
    result = probe.probe(tmp_path, command=child(PLAIN[:-5]))
    assert not result.works


def test_windows_tells_an_illegal_instruction_by_exit_code() -> None:
    run = ended(0xC000001D, b"", b"")
    assert run.death == "crashes with illegal instruction (SIGILL)"


FAILING = child("raise SystemExit('tried again')")


@posix
@pytest.mark.parametrize(
    "steps", [[PLAIN, EXTRA], [PLAIN, DIE.format("SIGILL")]], ids=["works", "without"]
)
def test_a_lasting_answer_is_remembered(tmp_path: Path, steps: list[str]) -> None:
    first = probe.probe(tmp_path, command=child(*steps))
    assert probe.probe(tmp_path, command=FAILING) == first


@posix
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([DIE.format("SIGILL")], id="does not work"),
        pytest.param([PLAIN, DIE.format("SIGKILL")], id="killed from outside"),
        pytest.param([PLAIN, "raise SystemExit('busy')"], id="gave up by itself"),
    ],
)
def test_an_answer_that_may_not_last_is_not_remembered(tmp_path: Path, steps: list[str]) -> None:
    probe.probe(tmp_path, command=child(*steps))
    again = probe.probe(tmp_path, command=child(PLAIN, EXTRA))
    assert again.use_extra_bufts


@pytest.mark.parametrize("change", ["library", "cpu", "folder"])
def test_another_build_or_cpu_is_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    libraries = tmp_path / "lib"
    libraries.mkdir()
    (libraries / "libllama.so").write_text("one")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(libraries))
    assert probe.probe(tmp_path, command=child(PLAIN, EXTRA)).works
    assert probe.probe(tmp_path, command=FAILING).works
    if change == "library":
        (libraries / "libllama.so").write_text("three")
    elif change == "cpu":
        monkeypatch.setattr(probe, "this_cpu", lambda: Cpu("another"))
    else:
        libraries.rename(tmp_path / "moved")
        monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path / "moved"))
    assert not probe.probe(tmp_path, command=FAILING).works


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"key": {"works": "perhaps"}}', b"\xff\xfe\x00"]
)
def test_a_damaged_memory_is_probed_again_and_mended(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / probe.CACHE_FILE
    file.write_bytes(content)
    assert probe.probe(tmp_path, command=child(PLAIN, EXTRA)).works
    assert probe.probe(tmp_path, command=FAILING).works
    assert [path.name for path in tmp_path.iterdir()] == [probe.CACHE_FILE]


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    assert probe.probe(occupied / "cache", command=child(PLAIN, EXTRA)).works


def test_what_is_remembered_can_be_forgotten(tmp_path: Path) -> None:
    probe.forget(tmp_path)
    probe.probe(tmp_path, command=child(PLAIN, EXTRA))
    probe.forget(tmp_path)
    assert not probe.probe(tmp_path, command=FAILING).works


def test_a_missing_library_is_told_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = probe.probe(tmp_path)
    assert not result.works
    assert result.detail.endswith(library.INSTALL)
    assert not list(tmp_path.iterdir())


def test_what_is_found_with_some_kernels_holds_for_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPECCHAT_KERNELS", raising=False)
    key = build_key()
    monkeypatch.setenv("SPECCHAT_KERNELS", "off")
    assert build_key() != key
