"""Models are loaded and run once in a child process before they are loaded here.

llama.cpp ends the process at many a damaged or odd file, a chat template is a stranger's program,
and no list of what they can do is complete. So the first prompts, the first load and the first
passes of files that were never tried risk another process. What came of it is remembered by the
headers and the build of llama.cpp.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from pydantic import RootModel

from specengine.core.errors import ModelFileError
from specengine.files.gguf import GGUF
from specengine.llama.child import ChildEnd, run_child
from specengine.llama.kept_json import read_kept, write_kept
from specengine.llama.probe import build_key

KEPT_FILE = "model-trials.json"
OWN_HEADS, VOCABULARY = "--own-heads", "--vocabulary"  # flags of the child
TEMPLATE, MODELS = "template", "models"  # what it prints when it begins with them
_VERSION = 2  # of what it does
_MOST = 1000

# Reading from a slow disk is what takes long.
_TIMEOUT_S = 120.0
_SLOWEST_DISK = 10e6  # bytes a second


class _Kept(RootModel[dict[str, str]]):
    """How trials ended by their keys: empty, or what is wrong."""


class Trial:
    """Of a target, with the head or the heads in its own file that go on from its hidden states,
    or alone; of a draft model, which is a target to itself; of a vocabulary without weights.
    """

    def __init__(
        self,
        model: GGUF,
        head: GGUF | None = None,
        *,
        own_heads: bool = False,
        vocab_only: bool = False,
    ) -> None:
        self._files = [gguf for gguf in (model, head) if gguf is not None]
        flags = {OWN_HEADS: own_heads, VOCABULARY: vocab_only}
        self._flags = [flag for flag, given in flags.items() if given]

    @property
    def label(self) -> str:
        """What is tried, for a person."""
        return " and ".join(gguf.path.name for gguf in self._files)

    def is_needed(self, folder: Path) -> bool:
        """Whether what comes of it is not remembered in `folder`."""
        return self._key not in read_kept(folder / KEPT_FILE, _Kept({})).root

    def run(
        self, folder: Path, cancel: Event | None = None, *, command: Sequence[str] | None = None
    ) -> None:
        """Raises ModelFileError where a process of its own does not survive this or the chat
        template takes too much, CancelledError.

        Returns where it does, and where the files cannot be loaded: loading them says why. Blocks
        for about as long as reading the files takes, or answers from what `folder` remembers.
        `command` starts the child where `sys.executable` is no Python.
        """
        file, key = folder / KEPT_FILE, self._key
        kept = read_kept(file, _Kept({})).root
        if (fault := kept.get(key)) is None:
            arguments = [*(str(gguf.path) for gguf in self._files), *self._flags]
            command = command or [sys.executable, "-m", "specengine.load.trial_child"]
            try:
                end = run_child([*command, *arguments], self._timeout_s, cancel)
            except OSError:
                return  # the probe said what is wrong
            fault, lasting = _judge(end)
            if lasting:
                kept = dict(list(kept.items())[1 - _MOST :])
                write_kept(file, _Kept({**kept, key: fault}))
        if fault:
            raise ModelFileError(
                f"{self._files[-1].path} cannot be used: {fault}: get it again, or take another "
                "model"
            )

    @property
    def _timeout_s(self) -> float:
        return _TIMEOUT_S + sum(gguf.file_size for gguf in self._files) / _SLOWEST_DISK

    @property
    def _key(self) -> str:
        parts = [_VERSION, build_key(), *self._flags, *(digest_of(gguf) for gguf in self._files)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def forget_failed(folder: Path) -> None:
    """Try anew what was refused."""
    file = folder / KEPT_FILE
    kept = read_kept(file, _Kept({})).root
    if any(kept.values()):
        write_kept(file, _Kept({key: death for key, death in kept.items() if not death}))


def _judge(end: ChildEnd) -> tuple[str, bool]:
    """What is wrong with the files, empty where nothing is; whether another run would say so."""
    if end.stdout.split()[-1:] != [TEMPLATE.encode()]:
        damaged = "it is damaged or not for this llama.cpp"
        return f"a process that tried it {end.death}; {damaged}" if end.death else "", end.lasting
    if end.error:
        return end.error, True
    return f"a process that tried its chat template {end.death}", end.lasting


def digest_of(gguf: GGUF) -> str:
    """Of all that decides what llama.cpp does: the header, and how long the file is."""
    with gguf.path.open("rb") as file:
        header = file.read(gguf.data_start)
    return f"{hashlib.blake2b(header, digest_size=16).hexdigest()}:{gguf.file_size}"
