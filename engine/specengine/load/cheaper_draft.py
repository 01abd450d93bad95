"""A draft model converted to the type whose passes cost least, once, and kept if that pays here.

How a draft model is quantized changes how often its tokens are accepted, never what is said: the
target verifies them all. So its weights may be rounded further than anybody would round a target's.
The conversion, and what it brings on this machine, are found out in a process of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import sys
from pathlib import Path
from threading import Event

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from specengine.core.errors import ModelFileError
from specengine.files.gguf import GGUF, read_gguf
from specengine.llama.child import run_child
from specengine.llama.kept_json import read_kept, write_kept
from specengine.llama.probe import build_key
from specengine.load.trial import digest_of

TYPE = "Q4_0"
"""Blocks of 32 weights in 18 bytes: the least that llama.cpp's and our kernels read for a weight of
more than three bits.
"""

PLAIN = "--plain"  # a flag of the child: without the extra buffer types
KEPT_FILE = "draft-conversions.json"
_VERSION = 1  # of what the child does
_BITS = 4.5  # of a weight
_WORTHWHILE = 0.9  # of its bytes: converting what is hardly larger is not tried
_TIMEOUT_S = 120.0
_SLOWEST = 10e6  # bytes a second


class Measured(BaseModel):
    """What the conversion of a draft model brings on this machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    before_s: float
    after_s: float
    """Seconds of a pass over one token, with the file as it is and converted."""
    overlap: float
    """The mass that the two models' distributions share, 0 to 1, averaged over a text. No rate of
    acceptance falls by more than 1 - overlap: total variation obeys the triangle inequality.
    """

    @property
    def pays(self) -> bool:
        """Whether it saves more of the time than half of what it can lose in accepted tokens:
        rounding falls on both sides, and a quarter was seen (docs/drafters.md).
        """
        return self.after_s < (1 + self.overlap) / 2 * self.before_s


class _Kept(RootModel[dict[str, Measured | None]]):
    """By build and file; None where llama.cpp cannot convert it."""


class CheaperDraft:
    """The conversion of the draft model `source`, kept in `folder`."""

    def __init__(self, source: GGUF, folder: Path) -> None:
        digest = digest_of(source)
        name = hashlib.blake2b(digest.encode(), digest_size=8).hexdigest()
        self.source = source
        self.path = folder / f"{source.path.stem}-{TYPE.lower()}-{name}.gguf"
        self._file = folder / KEPT_FILE
        self._key = hashlib.sha256(json.dumps([_VERSION, build_key(), digest]).encode()).hexdigest()

    @property
    def size(self) -> int:
        """About how many bytes the converted file has."""
        weights = sum(math.prod(t.shape) for t in self.source.tensors if len(t.shape) > 1)
        return self.source.data_start + int(weights * _BITS / 8)

    @property
    def is_worth_trying(self) -> bool:
        return self.size < _WORTHWHILE * self.source.file_size

    @property
    def is_known(self) -> bool:
        """Whether `find` answers at once."""
        kept = read_kept(self._file, _Kept({})).root
        if self._key not in kept:
            return False
        measured = kept[self._key]
        return measured is None or not measured.pays or self.path.exists()

    @property
    def measured(self) -> Measured | None:
        """What `find` measured; None where nothing is known, or nothing could be converted."""
        return read_kept(self._file, _Kept({})).root.get(self._key)

    def find(self, *, use_extra_bufts: bool, cancel: Event | None = None) -> GGUF | None:
        """The converted file if it drafts faster here, else None. `use_extra_bufts`: as the model
        will be loaded.

        Raises CancelledError. Blocks for some seconds for each gigabyte, at first; afterwards it
        answers from what is kept. Where the disk has no room nothing is converted.
        """
        if not self.is_known:
            self._convert(use_extra_bufts, cancel)
        measured = self.measured
        if measured is None or not measured.pays:
            return None
        try:
            return read_gguf(self.path)
        except (ModelFileError, OSError):
            return None

    def _convert(self, use_extra_bufts: bool, cancel: Event | None) -> None:
        partial = self.path.with_suffix(f".{os.getpid()}.part")
        command = [sys.executable, "-m", "specengine.load.cheaper_draft_child"]
        command += [str(self.source.path), str(partial), *([PLAIN] if not use_extra_bufts else [])]
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(partial.parent).free < 2 * self.size:
                return
            timeout_s = _TIMEOUT_S + self.source.file_size / _SLOWEST
            end = run_child(command, timeout_s, cancel)
            measured = _parse(end.stdout)
            if measured is not None and measured.pays:
                partial.replace(self.path)
            if measured is not None or end.lasting:
                kept = read_kept(self._file, _Kept({})).root
                write_kept(self._file, _Kept({**kept, self._key: measured}))
        except OSError:
            return  # drafting with the file as it is
        finally:
            with contextlib.suppress(OSError):
                partial.unlink()


def _parse(stdout: bytes) -> Measured | None:
    try:
        return Measured.model_validate_json(stdout.strip().split(b"\n")[-1])
    except ValidationError:
        return None
