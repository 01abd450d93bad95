"""One call from a name to a file that can be loaded."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from threading import Event

from specchat.config import locations
from specchat.config.settings import load_settings
from specchat.models.download import NoticeCallback, ProgressCallback, Unfinished, download
from specchat.models.errors import DownloadError
from specchat.models.lock import locked
from specchat.models.registry import Model
from specchat.models.store import ModelStore

_log = logging.getLogger(__name__)


def ensure_model(
    model: Model | Path,
    *,
    folder: Path | None = None,
    offline: bool | None = None,
    only_here: bool = False,
    cancel: Event | None = None,
    on_progress: ProgressCallback = lambda done, total: None,
    on_notice: NoticeCallback = _log.info,
) -> Path:
    """The verified file of `model`: known already, found on this computer, or downloaded.

    A path is returned as it is. `folder` is the models folder by default. Offline nothing is
    connected to; the default is what the settings and `HF_HUB_OFFLINE` say. `only_here`: nothing is
    downloaded, network or not. Blocks; `cancel` may be set from any thread. Raises DownloadError,
    DownloadCancelledError.
    """
    if isinstance(model, Path):
        return model
    store = ModelStore(folder or locations.models_dir())
    if receipt := store.receipt(model):
        return receipt.path
    cancel = cancel or Event()
    destination = store.own_path(model)
    unfinished = Unfinished.of(destination)
    try:
        unfinished.lock.parent.mkdir(parents=True, exist_ok=True)
        with locked(
            unfinished.lock, cancel, lambda: on_progress(unfinished.size(), model.bytes or 0)
        ):
            if receipt := store.receipt(model) or store.adopt(model):
                return receipt.path
            if only_here:
                raise DownloadError(
                    f"{model.name} is not on this computer: run `specchat models pull {model.name}`"
                )
            if _offline() if offline is None else offline:
                raise DownloadError(
                    f"{model.name} is not on this computer, and specchat is offline (--offline "
                    f"or SPECCHAT_OFFLINE): run `specchat models pull {model.name}` once with a "
                    "network connection"
                )
            sha256 = download(
                model, destination, cancel=cancel, on_progress=on_progress, on_notice=on_notice
            )
            return store.record(model, destination, sha256, "specchat").path
    except OSError as error:
        raise DownloadError(
            f"{model.name} cannot be stored in {store.folder}: {error.strerror or error}"
        ) from error


def _offline() -> bool:
    return load_settings().offline or os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")
