"""Files that were never loaded are tried in a child process, once for each header and build."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from gguf import GGUFWriter

from specengine.core.errors import CancelledError, ModelFileError
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.language_model import read_target, read_vocabulary
from specengine.load import trial
from specengine.load.trial import Trial, forget_failed
from support.gguf_files import write_gguf, write_out
from support.mtp_models import write_qwen35

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")

DIES = "import os, signal; os.kill(os.getpid(), signal.{})"
VOCABULARY = [chr(97 + i) for i in range(26)] + [chr(48 + i) for i in range(14)]
NEVER = "raise SystemExit('tried again')"


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def tried(folder: Path) -> str:
    """A child that leaves a mark."""
    return f"import pathlib; pathlib.Path({str(folder / 'mark')!r}).touch()"


def was_tried(folder: Path) -> bool:
    mark = folder / "mark"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found


@pytest.fixture
def model(tmp_path: Path) -> GGUF:
    return read_gguf(write_gguf(tmp_path / "model.gguf"))


@posix
def test_a_file_that_ends_the_child_is_refused_in_one_line_and_remembered(
    model: GGUF, tmp_path: Path
) -> None:
    for code in (DIES.format("SIGSEGV"), tried(tmp_path)):
        with pytest.raises(ModelFileError, match=r"SIGSEGV.*get it again") as refused:
            Trial(model).run(tmp_path, command=child(code))
        assert str(refused.value).startswith(f"{model.path} cannot be used")
        assert "\n" not in str(refused.value)
    assert not was_tried(tmp_path)


def test_a_file_that_the_child_survives_is_not_tried_again(model: GGUF, tmp_path: Path) -> None:
    assert Trial(model).is_needed(tmp_path)
    Trial(model).run(tmp_path, command=child(tried(tmp_path)))
    assert was_tried(tmp_path)
    assert not Trial(model).is_needed(tmp_path)
    Trial(model).run(tmp_path, command=child(tried(tmp_path)))
    assert not was_tried(tmp_path)


def test_what_cannot_be_loaded_is_left_to_the_load_to_say(model: GGUF, tmp_path: Path) -> None:
    Trial(model).run(tmp_path, command=child(NEVER))
    Trial(model).run(tmp_path, command=[str(tmp_path / "missing")])
    assert Trial(model).is_needed(tmp_path)


@posix
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_child_that_is_killed_from_outside_says_nothing_lasting(
    model: GGUF, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ModelFileError, match=name):
        Trial(model).run(tmp_path, command=child(DIES.format(name)))
    assert Trial(model).is_needed(tmp_path)


def test_a_child_that_hangs_is_ended(
    model: GGUF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_TIMEOUT_S", 1.0)
    with pytest.raises(ModelFileError, match="does not answer within 1"):
        Trial(model).run(tmp_path, command=child("import time; time.sleep(600)"))
    assert Trial(model).is_needed(tmp_path)


def test_a_trial_can_be_cancelled(model: GGUF, tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        Trial(model).run(tmp_path, cancel, command=child("import time; time.sleep(600)"))
    assert Trial(model).is_needed(tmp_path)


@pytest.mark.parametrize("change", ["header", "size", "build", "heads", "head", "vocabulary"])
def test_another_file_or_build_is_tried_anew(
    model: GGUF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    Trial(model).run(tmp_path, command=child(""))
    again = Trial(
        model,
        head=model if change == "head" else None,
        own_heads=change == "heads",
        vocab_only=change == "vocabulary",
    )
    if change == "header":
        again = Trial(read_gguf(write_gguf(model.path, eos=2)))
    elif change == "size":
        model.path.write_bytes(model.path.read_bytes() + b"\0")
        again = Trial(read_gguf(model.path))
    elif change == "build":
        monkeypatch.setattr(trial, "build_key", lambda: "another")
    assert again.is_needed(tmp_path)


@posix
def test_what_was_refused_can_be_tried_anew(model: GGUF, tmp_path: Path) -> None:
    other = read_gguf(write_gguf(tmp_path / "other.gguf", eos=2))
    Trial(other).run(tmp_path, command=child(""))
    with pytest.raises(ModelFileError):
        Trial(model).run(tmp_path, command=child(DIES.format("SIGABRT")))
    forget_failed(tmp_path)
    assert Trial(model).is_needed(tmp_path)
    assert not Trial(other).is_needed(tmp_path)


@posix
def test_a_real_file_that_llama_cpp_does_not_survive_is_refused(tmp_path: Path) -> None:
    path = write_qwen35(tmp_path / "model.gguf", VOCABULARY, inner_size=3)
    with pytest.raises(ModelFileError, match=r"crashes with a failed check \(SIGABRT\)"):
        Trial(read_target(path)).run(tmp_path)


@posix
def test_a_real_vocabulary_that_llama_cpp_does_not_survive_is_refused(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "vocabulary.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", "a"])
    writer.add_token_scores([0.0] * 4)
    writer.add_token_types([2, 3, 3, 1])
    vocabulary = read_vocabulary(write_out(writer, tmp_path / "vocabulary.gguf"))
    with pytest.raises(ModelFileError, match="SIGABRT"):
        Trial(vocabulary, vocab_only=True).run(tmp_path)


@pytest.mark.parametrize("own_heads", [False, True])
def test_a_model_with_heads_of_its_own_passes_in_the_child(tmp_path: Path, own_heads: bool) -> None:
    model = read_target(write_qwen35(tmp_path / "model.gguf", VOCABULARY))
    Trial(model, own_heads=own_heads).run(tmp_path)
    assert not Trial(model, own_heads=own_heads).is_needed(tmp_path)


def test_a_real_model_passes_in_the_child(tiny_model: Path, tmp_path: Path) -> None:
    model = read_gguf(tiny_model)
    Trial(model).run(tmp_path)
    assert not Trial(model).is_needed(tmp_path)


def test_a_template_that_takes_too_much_is_refused_and_remembered(tmp_path: Path) -> None:
    model = read_gguf(write_gguf(tmp_path / "model.gguf", template="{{ 'a' * 10**9 }}"))
    with pytest.raises(ModelFileError, match="chat template makes a text or list longer"):
        Trial(model).run(tmp_path)
    with pytest.raises(ModelFileError, match=r"chat template makes .* get it again") as refused:
        Trial(model).run(tmp_path, command=child(tried(tmp_path)))
    assert "\n" not in str(refused.value)
    assert not was_tried(tmp_path)


ENDLESS = "lambda source: round(5, -(10**9))"
GREEDY = "lambda source: bytes(2**30) and None"


@pytest.mark.parametrize(
    ("takes", "told"),
    [
        (ENDLESS, r"takes longer than 0\.5 s"),
        pytest.param(
            GREEDY,
            "needs more than 64 MiB",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="no limit of memory"),
        ),
    ],
)
def test_what_one_call_of_a_template_takes_is_bounded_in_the_child(
    model: GGUF, tmp_path: Path, takes: str, told: str
) -> None:
    code = (
        "from specengine.load import trial, trial_child\n"
        "trial_child._TEMPLATE_S, trial_child._TEMPLATE_BYTES = 0.5, 2**26\n"
        f"trial_child.exceeded_limit = {takes}\n"
        "print(trial.TEMPLATE, flush=True)\n"
        "trial_child.try_template('')\n"
    )
    with pytest.raises(ModelFileError, match=f"the chat template {told}: get it again"):
        Trial(model).run(tmp_path, command=child(code))


@posix
def test_a_template_that_ends_the_child_is_told_as_such(model: GGUF, tmp_path: Path) -> None:
    code = f"print({trial.TEMPLATE!r}, flush=True); {DIES.format('SIGSEGV')}"
    with pytest.raises(ModelFileError, match=r"tried its chat template crashes with .*SIGSEGV"):
        Trial(model).run(tmp_path, command=child(code))
