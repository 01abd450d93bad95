"""Which file on this computer is a model of the registry: verified once, then remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from specchat.models.download import Unfinished
from specchat.models.growing_file import sha256_of
from specchat.models.registry import Model
from specchat.models.scan import Found, Keeper, scan
from specchat.models.sources import packaged


class Receipt(BaseModel):
    """A file that has been verified as a model's, and how to notice that it changed since."""

    path: Path
    size: int
    mtime_ns: int
    sha256: str
    keeper: Keeper
    """The program whose folder the file is in."""

    def still_holds(self) -> bool:
        try:
            stat = self.path.stat()
        except OSError:
            return False
        return (stat.st_size, stat.st_mtime_ns) == (self.size, self.mtime_ns)


class ModelStore:
    """The models folder: downloads, and a receipt for each model that is on this computer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def own_path(self, model: Model) -> Path:
        """Where a download of `model` goes."""
        return self.folder / model.file_name

    def receipt(self, model: Model) -> Receipt | None:
        """The file of `model` that came with the program, or the one that was verified, if it is
        still as it was then.
        """
        for path in map(packaged, model.sources):
            if path is not None and path.is_file():
                return _receipt(path, model.sha256 or sha256_of(path), "specchat")
        try:
            receipt = Receipt.model_validate_json(self._receipt_path(model).read_bytes())
        except (OSError, ValidationError):
            return None
        fits = model.sha256 in (None, receipt.sha256)
        return receipt if fits and receipt.still_holds() else None

    def record(self, model: Model, path: Path, sha256: str, keeper: Keeper) -> Receipt:
        receipt = _receipt(path, sha256, keeper)
        new = self._receipt_path(model).with_suffix(".new")
        new.write_text(receipt.model_dump_json(indent=1), encoding="utf-8")
        new.replace(self._receipt_path(model))
        return receipt

    def adopt(self, model: Model) -> Receipt | None:
        """Look for `model` among all files on this computer, and remember where it is.

        A file counts where its SHA-256 is the registry's: as its keeper states it, else computed
        for files of exactly the right size. Without a hash in the registry, where it lies where
        a download of the model would, or is the very file that an `hf:` source names.
        """
        for found in self.candidates(model, scan(self.folder)):
            sha256 = found.sha256 or sha256_of(found.path)
            if model.sha256 in (None, sha256):
                return self.record(model, found.path, sha256, found.keeper)
        return None

    def candidates(self, model: Model, files: Iterable[Found]) -> Iterator[Found]:
        """Those of `files` that are `model`, as far as can be said without reading them whole."""
        for found in files:
            if model.sha256 is None:
                named = f"hf:{found.name}" in model.sources
                fits = named or found.path == self.own_path(model)
            elif found.sha256 is None:
                fits = found.size == model.bytes
            else:
                fits = found.sha256 == model.sha256
            if fits:
                yield found

    def remove(self, model: Model) -> int:
        """Delete the download, finished or not; files of other programs stay. Bytes freed."""
        own = self.own_path(model)
        unfinished = Unfinished.of(own)
        freed = unfinished.size() + (own.stat().st_size if own.exists() else 0)
        unfinished.discard()
        own.unlink(missing_ok=True)
        self._receipt_path(model).unlink(missing_ok=True)
        return freed

    def _receipt_path(self, model: Model) -> Path:
        return self.folder / f"{model.name}.json"


def _receipt(path: Path, sha256: str, keeper: Keeper) -> Receipt:
    stat = path.stat()
    return Receipt(
        path=path, size=stat.st_size, mtime_ns=stat.st_mtime_ns, sha256=sha256, keeper=keeper
    )
