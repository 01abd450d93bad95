"""From a name to a verified file: known, found, or fetched; also by two processes at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import specchat
from specchat.models.download import Unfinished
from specchat.models.ensure import ensure_model
from specchat.models.errors import DownloadCancelledError, DownloadError
from specchat.models.registry import Model
from specchat.models.store import ModelStore
from support.file_server import FileServer
from support.registry_models import kept_by_lm_studio, model_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def model(server: FileServer, small_gguf: bytes) -> Model:
    server.files["/small.gguf"] = small_gguf
    return model_of(small_gguf, f"{server.url}/small.gguf")


def test_a_model_is_fetched_once(server: FileServer, folder: Path, model: Model) -> None:
    first = ensure_model(model, folder=folder)
    assert first == folder / "small.gguf"
    asked = len(server.requests)
    assert ensure_model(model, folder=folder) == first
    assert len(server.requests) == asked


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert ensure_model(tmp_path / "own.gguf") == tmp_path / "own.gguf"


def test_a_file_that_changed_is_fetched_again(
    server: FileServer, folder: Path, model: Model, small_gguf: bytes
) -> None:
    path = ensure_model(model, folder=folder)
    path.write_bytes(small_gguf[:1000])
    assert ensure_model(model, folder=folder).read_bytes() == small_gguf


def test_a_newer_registry_entry_is_fetched_in_place_of_the_old_file(
    server: FileServer, folder: Path, model: Model, small_gguf: bytes
) -> None:
    ensure_model(model, folder=folder)
    newer = small_gguf + bytes(32)
    server.files["/newer.gguf"] = newer
    path = ensure_model(model_of(newer, f"{server.url}/newer.gguf"), folder=folder)
    assert path.read_bytes() == newer


@pytest.mark.parametrize("variable", ["SPECCHAT_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_connects_to_nothing(
    server: FileServer,
    folder: Path,
    model: Model,
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(DownloadError, match=r"specchat is offline.*pull small"):
        ensure_model(model, folder=folder)
    assert server.requests == []


@pytest.mark.parametrize("lost", ["", "small.json"], ids=["nothing", "its receipt"])
def test_offline_what_is_here_is_used_whatever_was_lost(
    server: FileServer, folder: Path, model: Model, lost: str
) -> None:
    path = ensure_model(model, folder=folder)
    server.files.clear()
    if lost:
        (folder / lost).unlink()
    assert ensure_model(model, folder=folder, offline=True) == path


def test_a_file_of_another_program_is_used_in_place(
    server: FileServer, folder: Path, tmp_path: Path, model: Model, small_gguf: bytes
) -> None:
    kept = kept_by_lm_studio(tmp_path, small_gguf)
    kept.chmod(0o400)
    assert ensure_model(model, folder=folder) == kept
    assert server.requests == []
    assert ensure_model(model, folder=folder, offline=True) == kept


def test_a_file_of_the_right_size_and_other_content_is_not_used(
    server: FileServer, folder: Path, tmp_path: Path, model: Model, small_gguf: bytes
) -> None:
    kept_by_lm_studio(tmp_path, small_gguf[:-1] + b"?")
    assert ensure_model(model, folder=folder) == folder / "small.gguf"


def test_without_a_hash_the_file_that_the_source_names_is_used(
    folder: Path, tmp_path: Path, small_gguf: bytes
) -> None:
    model = model_of(small_gguf, "hf:owner/repo/small.gguf", bytes=None, sha256=None)
    kept = kept_by_lm_studio(tmp_path, small_gguf, "small.gguf")
    assert ensure_model(model, folder=folder, offline=True) == kept


def test_removing_leaves_files_of_other_programs(
    folder: Path, tmp_path: Path, model: Model, small_gguf: bytes
) -> None:
    kept = kept_by_lm_studio(tmp_path, small_gguf)
    ensure_model(model, folder=folder)
    assert ModelStore(folder).remove(model) == 0
    assert kept.exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, model: Model) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match=r"cannot be stored in .*file/models"):
        ensure_model(model, folder=tmp_path / "file/models")


# --- several processes ---

CHILD = """
import json, sys
from pathlib import Path
from specchat.models.ensure import ensure_model
from specchat.models.registry import Model
print(ensure_model(Model.model_validate(json.loads(sys.argv[1])), folder=Path(sys.argv[2])))
"""


def start(model: Model, folder: Path) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", CHILD, model.model_dump_json(), str(folder)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_after_kill_9_the_next_process_goes_on(
    server: FileServer, folder: Path, model: Model, small_gguf: bytes
) -> None:
    server.stalls = [100_000]
    child = start(model, folder)
    part = Unfinished.of(folder / "small.gguf").part
    wait_until(lambda: part.exists() and part.stat().st_size > 50_000)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    left = part.stat().st_size
    assert ensure_model(model, folder=folder).read_bytes() == small_gguf
    assert server.gets("/small.gguf") == [None, f"bytes={left}-"]


def test_two_processes_fetch_a_model_once(
    server: FileServer, folder: Path, model: Model, small_gguf: bytes
) -> None:
    server.delay_s = 0.5
    children = [start(model, folder) for _ in range(3)]
    paths = [child.communicate()[0].strip() for child in children]
    assert paths == [str(folder / "small.gguf")] * 3
    assert server.gets("/small.gguf") == [None]
    assert (folder / "small.gguf").read_bytes() == small_gguf


def test_waiting_for_another_process_can_be_stopped(
    server: FileServer, folder: Path, model: Model
) -> None:
    server.stalls = [100_000]
    child = start(model, folder)
    part = Unfinished.of(folder / "small.gguf").part
    wait_until(lambda: part.exists() and part.stat().st_size > 50_000)
    cancel = threading.Event()
    seen: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        seen.append((done, total))
        cancel.set()

    with pytest.raises(DownloadCancelledError):
        ensure_model(model, folder=folder, cancel=cancel, on_progress=report)
    child.kill()
    child.communicate()
    assert seen[0][0] > 50_000, "the other process's progress is shown"
    assert seen[0][1] == model.bytes


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_receipts_are_plain_json(server: FileServer, folder: Path, model: Model) -> None:
    ensure_model(model, folder=folder)
    receipt = json.loads((folder / "small.json").read_text())
    assert receipt["sha256"] == model.sha256
    assert receipt["keeper"] == "specchat"


def test_what_comes_with_the_program_is_used_where_it_lies_even_offline(folder: Path) -> None:
    own = Path(specchat.__file__).with_name("py.typed")
    model = model_of(own.read_bytes() or b"-", "package:py.typed", sha256=None)
    assert ensure_model(model, folder=folder, offline=True) == own
    assert not folder.exists()


def test_a_file_that_this_program_does_not_bring_is_no_surprise(folder: Path) -> None:
    model = model_of(b"-", "package:heads/none.gguf")
    with pytest.raises(DownloadError, match=r"heads/none\.gguf"):
        ensure_model(model, folder=folder)
