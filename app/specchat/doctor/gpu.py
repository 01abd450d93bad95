"""What of a profile's models is on GPUs, or would be: for `doctor` and the chat's picker."""

from __future__ import annotations

from collections.abc import Mapping

from specchat.config import locations
from specchat.errors import SpecchatError
from specchat.models.ensure import ensure_model
from specchat.models.registry import Profile, Registry
from specchat.wire.address import is_url
from specengine.core.errors import SpecEngineError
from specengine.files.gguf import GGUF, read_gguf
from specengine.llama import library
from specengine.llama.backends import gpu_devices
from specengine.llama.offload import plan
from specengine.llama.placement import Device, GpuLayers, summary
from specengine.llama.probe import probe


def devices() -> list[Device]:
    """The GPUs that llama.cpp can use here; none where it does not work at all."""
    try:
        return gpu_devices(library.load()) if probe(locations.cache_dir()).works else []
    except SpecEngineError:
        return []


def planned(
    profile: Profile,
    registry: Registry,
    gpu_layers: GpuLayers,
    freed: Mapping[str, int] | None = None,
) -> str:
    """One line, as `specengine.llama.placement.summary`; empty if there is no GPU, or a model
    is not on this computer. `freed`: as in `specengine.llama.offload.plan`. Blocks.
    """
    if not devices():
        return ""
    names = {"draft": profile.draft_model, "target": profile.target}
    roles = {role: name for role, name in names.items() if name and not is_url(name)}
    wanted = [getattr(gpu_layers, role) for role in roles]
    try:
        models = [_header(registry, name) for name in roles.values()]
        placements = plan(models, profile.n_ctx, wanted, freed=freed)
    except (SpecchatError, SpecEngineError):
        return ""
    return summary(dict(zip(roles, placements, strict=True)))


def _header(registry: Registry, name: str) -> GGUF:
    return read_gguf(ensure_model(registry.resolve(name), offline=True))
