"""GGUF files that other programs already keep on this computer. They are read, never written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specchat.config import locations

Keeper = Literal["specchat", "Hugging Face", "LM Studio", "Ollama", "llama.cpp"]

# What a desktop build carries; other installations have no such folder.
PACKAGED = Path(__file__).with_name("packaged")

_OLLAMA_WEIGHTS = "application/vnd.ollama.image.model"
_OLLAMA_HOST = "registry.ollama.ai"


@dataclass(frozen=True)
class Found:
    """A file, who keeps it, and what its keeper says about it."""

    path: Path
    keeper: Keeper
    name: str
    """The program's name for it: `qwen2.5:7b`, `Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf`."""
    size: int
    sha256: str | None = None
    """Its SHA-256, if the program stores it under that."""


def scan(models_dir: Path) -> list[Found]:
    """Every GGUF file in `models_dir`, in the program, and in other programs' folders, each once.

    Folders that cannot be read and links that lead nowhere are passed over.
    """
    found: dict[Path, Found] = {}
    for candidate in _candidates(models_dir):
        found.setdefault(candidate.path.resolve(), candidate)
    return list(found.values())


def _candidates(models_dir: Path) -> Iterator[Found]:
    for folder in (models_dir, PACKAGED):
        for path in _gguf_files(folder):
            yield from _found(path, "specchat", path.name)
    for folder in _hugging_face_folders():
        yield from _in_hugging_face_cache(folder)
    for folder in _lm_studio_folders():
        for path in _gguf_files(folder):
            yield from _found(path, "LM Studio", path.relative_to(folder).as_posix())
    for folder in _ollama_folders():
        yield from _in_ollama(folder)
    for folder in _llama_cpp_folders():
        for path in _gguf_files(folder):
            yield from _found(path, "llama.cpp", path.name)


def _found(path: Path, keeper: Keeper, name: str, sha256: str | None = None) -> Iterator[Found]:
    try:
        if not path.is_file():  # a pipe would keep us waiting
            return
        with path.open("rb") as file:
            if file.read(4) == b"GGUF":
                yield Found(path, keeper, name, os.fstat(file.fileno()).st_size, sha256)
    except OSError:
        return


def _gguf_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(files) if name.lower().endswith(".gguf"))


def _in_hugging_face_cache(folder: Path) -> Iterator[Found]:
    """`models--OWNER--REPOSITORY/snapshots/COMMIT/FILE`, a link to `blobs/HASH`."""
    for repository in _subfolders(folder, "models--*"):
        owner_and_name = repository.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in _subfolders(repository / "snapshots", "*"):
            for path in _gguf_files(snapshot):
                name = f"{owner_and_name}/{path.relative_to(snapshot).as_posix()}"
                blob = Path(os.path.realpath(path))  # Path.resolve raises for a circle of links
                yield from _found(path, "Hugging Face", name, _if_sha256(blob.name))


def _in_ollama(folder: Path) -> Iterator[Found]:
    """Manifests name a model's layers; its weights are the layer of one media type."""
    manifests = folder / "manifests"
    for parent, _, files in os.walk(manifests):
        for tag in sorted(files):
            manifest = Path(parent, tag)
            for digest in _ollama_weights(manifest):
                host, *path = manifest.relative_to(manifests).parts
                model = "/".join(path[:-1]).removeprefix("library/")
                prefix = "" if host == _OLLAMA_HOST else f"{host}/"
                blob = folder / "blobs" / f"sha256-{digest}"
                yield from _found(blob, "Ollama", f"{prefix}{model}:{tag}", digest)


def _ollama_weights(manifest: Path) -> list[str]:
    try:
        layers = json.loads(manifest.read_bytes())["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_WEIGHTS]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    hashes = (_if_sha256(str(digest).removeprefix("sha256:")) for digest in digests)
    return [sha256 for sha256 in hashes if sha256]


def _if_sha256(text: str) -> str | None:
    return text if re.fullmatch("[0-9a-f]{64}", text) else None


def _subfolders(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_dir())
    except OSError:
        return []


def _hugging_face_folders() -> list[Path]:
    home = _folder("HF_HOME", _home() / ".cache/huggingface")
    return [_folder("HF_HUB_CACHE", home / "hub")]


def _lm_studio_folders() -> list[Path]:
    """The present folder, the one chosen in its settings, and that of versions before 0.3."""
    home = _home()
    base = home / ".lmstudio"
    with suppress(OSError, ValueError):
        base = Path((home / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip())
    folders = [base / "models", home / ".cache/lm-studio/models"]
    with suppress(OSError, ValueError, KeyError, TypeError):
        settings = json.loads((base / "settings.json").read_bytes())
        folders.insert(0, Path(settings["downloadsFolder"]))
    return [folder for folder in folders if folder.is_absolute()]


def _ollama_folders() -> list[Path]:
    """The person's folder, and that of the service which its Linux installer sets up."""
    return [
        _folder("OLLAMA_MODELS", _home() / ".ollama/models"),
        Path("/usr/share/ollama/.ollama/models"),
    ]


def _llama_cpp_folders() -> list[Path]:
    if os.name == "nt":
        default = Path(os.environ.get("LOCALAPPDATA", _home() / "AppData/Local")) / "llama.cpp"
    elif os.uname().sysname == "Darwin":
        default = _home() / "Library/Caches/llama.cpp"
    else:
        default = _folder("XDG_CACHE_HOME", _home() / ".cache") / "llama.cpp"
    return [_folder("LLAMA_CACHE", default)]


def _home() -> Path:
    return locations.expanded("~")


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable)
    return locations.expanded(value) if value else default
