"""Draft models are converted to a cheaper type once, and kept where that pays."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from specengine.core.errors import CancelledError
from specengine.files.gguf import GGUF, read_gguf
from specengine.llama.child import ChildEnd
from specengine.llama.quantize import to_q4_0
from specengine.load import cheaper_draft
from specengine.load.cheaper_draft import CheaperDraft, Measured

PAYS = Measured(before_s=0.010, after_s=0.005, overlap=0.8)
DOES_NOT = Measured(before_s=0.010, after_s=0.0095, overlap=0.8)

Runs = list[list[str]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[ChildEnd], Runs]:
    """Lets the child end so; it writes its file first. Returns the commands that started it."""

    def ends(end: ChildEnd) -> Runs:
        started: Runs = []

        def run_child(command: Sequence[str], timeout_s: float, cancel: object) -> ChildEnd:
            started.append(list(command))
            shutil.copy(command[3], command[4])
            return end

        monkeypatch.setattr(cheaper_draft, "run_child", run_child)
        return started

    return ends


def printed(measured: Measured) -> ChildEnd:
    return ChildEnd(b"llama.cpp says this\n" + measured.model_dump_json().encode() + b"\n")


def files_in(folder: Path) -> set[str]:
    return {path.suffix for path in folder.iterdir()}


@pytest.fixture
def source(tiny_model: Path) -> GGUF:
    return read_gguf(tiny_model)


def test_a_real_model_is_converted_measured_and_loads(source: GGUF, tmp_path: Path) -> None:
    conversion = CheaperDraft(source, tmp_path)
    assert conversion.is_worth_trying
    conversion.find(use_extra_bufts=True)
    measured = conversion.measured
    assert measured is not None
    assert 0.5 < measured.overlap < 1  # its words, hardly changed; equal only if nothing was
    converted = tmp_path / "again.gguf"
    to_q4_0(source.path, converted, n_threads=1)
    found = read_gguf(converted)
    assert math.isclose(found.file_size, conversion.size, rel_tol=0.05)
    matrices = {t.type_name for t in found.tensors if len(t.shape) > 1}
    assert matrices == {cheaper_draft.TYPE}
    assert found.tokens() == source.tokens()


@pytest.mark.parametrize(
    ("measured", "pays"),
    [
        (PAYS, True),
        (DOES_NOT, False),
        (Measured(before_s=1, after_s=0.89, overlap=0.8), True),
        (Measured(before_s=1, after_s=0.91, overlap=0.8), False),
        (Measured(before_s=1, after_s=0.5, overlap=0.0), False),
    ],
)
def test_it_pays_where_it_saves_more_than_half_of_what_it_can_lose(
    measured: Measured, pays: bool
) -> None:
    assert measured.pays == pays


def test_what_pays_is_kept_and_found_again_without_a_child(
    source: GGUF, tmp_path: Path, runs: Callable[[ChildEnd], Runs]
) -> None:
    started = runs(printed(PAYS))
    for _ in range(2):
        found = CheaperDraft(source, tmp_path).find(use_extra_bufts=False)
        assert found is not None
        assert found.path.parent == tmp_path
    assert len(started) == 1
    assert started[0][-1] == cheaper_draft.PLAIN
    assert files_in(tmp_path) == {".gguf", ".json"}
    CheaperDraft(source, tmp_path).path.unlink()  # the cache may be emptied at any time
    assert CheaperDraft(source, tmp_path).find(use_extra_bufts=True) is not None
    assert len(started) == 2


@pytest.mark.parametrize(
    "end", [printed(DOES_NOT), ChildEnd(b"", death="crashes"), ChildEnd(b"", error="no such type")]
)
def test_what_does_not_pay_or_cannot_be_is_remembered_and_leaves_no_file(
    end: ChildEnd, source: GGUF, tmp_path: Path, runs: Callable[[ChildEnd], Runs]
) -> None:
    started = runs(end)
    for _ in range(2):
        assert CheaperDraft(source, tmp_path).find(use_extra_bufts=True) is None
    assert len(started) == 1
    assert files_in(tmp_path) == {".json"}


def test_a_child_that_was_killed_from_outside_is_started_again(
    source: GGUF, tmp_path: Path, runs: Callable[[ChildEnd], Runs]
) -> None:
    started = runs(ChildEnd(death="crashes with SIGKILL", lasting=False))
    for _ in range(2):
        assert CheaperDraft(source, tmp_path).find(use_extra_bufts=True) is None
    assert len(started) == 2


def test_without_room_on_the_disk_nothing_is_converted(
    source: GGUF,
    tmp_path: Path,
    runs: Callable[[ChildEnd], Runs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = runs(printed(PAYS))
    free = SimpleNamespace(free=CheaperDraft(source, tmp_path).size)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: free)
    assert CheaperDraft(source, tmp_path).find(use_extra_bufts=True) is None
    assert started == []


def test_it_can_be_cancelled_and_leaves_nothing(source: GGUF, tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        CheaperDraft(source, tmp_path).find(use_extra_bufts=True, cancel=cancel)
    assert files_in(tmp_path) == set()


def test_what_is_small_already_is_not_tried(source: GGUF, tmp_path: Path) -> None:
    converted = tmp_path / "small.gguf"
    to_q4_0(source.path, converted, n_threads=1)
    assert not CheaperDraft(read_gguf(converted), tmp_path).is_worth_trying
