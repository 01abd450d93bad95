"""Which file on this computer is a model of the registry: verified once, then remembered."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ValidationError

from specchat.models.growing_file import sha256_of
from specchat.models.registry import Model
from specchat.models.scan import Found, scan


class Receipt(BaseModel):
    """A file that has been verified as a model's, and how to notice that it changed since."""

    path: Path
    size: int
    mtime_ns: int
    sha256: str
    source: str

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
        """The verified file of `model`, if it is still as it was then."""
        try:
            receipt = Receipt.model_validate_json(self._receipt_path(model).read_bytes())
        except (OSError, ValidationError):
            return None
        fits = model.sha256 in (None, receipt.sha256)
        return receipt if fits and receipt.still_holds() else None

    def record(self, model: Model, path: Path, sha256: str, source: str) -> Receipt:
        stat = path.stat()
        receipt = Receipt(
            path=path, size=stat.st_size, mtime_ns=stat.st_mtime_ns, sha256=sha256, source=source
        )
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
        for found in scan(self.folder):
            if sha256 := self._identity(found, model):
                return self.record(model, found.path, sha256, found.keeper)
        return None

    def remove(self, model: Model) -> int:
        """Delete the downloaded file and its receipt; files of other programs stay. Bytes freed."""
        own = self.own_path(model)
        freed = own.stat().st_size if own.exists() else 0
        own.unlink(missing_ok=True)
        self._receipt_path(model).unlink(missing_ok=True)
        return freed

    def _identity(self, found: Found, model: Model) -> str | None:
        """The SHA-256 of `found` if it is `model`, else None."""
        if model.sha256 is None:
            named = f"hf:{found.name}" in model.sources
            if found.path == self.own_path(model) or named:
                return found.sha256 or sha256_of(found.path)
            return None
        if found.sha256 is None and found.size == model.bytes:
            return model.sha256 if sha256_of(found.path) == model.sha256 else None
        return model.sha256 if found.sha256 == model.sha256 else None

    def _receipt_path(self, model: Model) -> Path:
        return self.folder / f"{model.name}.json"
