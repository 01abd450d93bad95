"""Models of the registry that a test makes up, and files that another program keeps."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from specchat.models.registry import Model


def model_of(content: bytes, *sources: str, **changes: Any) -> Model:
    """A model `small` whose file has this content."""
    fields = {
        **{"name": "small", "description": "", "licence": "MIT", "sources": sources},
        **{"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
    }
    return Model.model_validate({**fields, **changes})


def kept_by_lm_studio(folder: Path, content: bytes, name: str = "any-name.gguf") -> Path:
    """A file in LM Studio's folder, where `isolate` was told `folder`."""
    path = folder / "home/.lmstudio/models/owner/repo" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
