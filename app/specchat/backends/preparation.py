"""From a profile to files that can be loaded: fetched, checked, and tried in a child process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from specchat.backends.cheaper_drafts import cheaper
from specchat.backends.trials import try_out
from specchat.config import locations
from specchat.config.installation import explain_probe
from specchat.errors import SpecchatError
from specchat.models.ensure import ensure_model
from specchat.models.memory import require_memory
from specchat.models.registry import Profile, Registry
from specengine.core.errors import BackendError, CancelledError, ModelFileError, SpecEngineError
from specengine.core.events import Progress
from specengine.drafters.registry import uses_own_heads
from specengine.files.compatibility import Comparison, require_compatible
from specengine.files.gguf import GGUF
from specengine.files.language_model import read_draft, read_target
from specengine.files.mtp import check_own_heads
from specengine.llama import extensions
from specengine.llama.placement import GpuLayers
from specengine.llama.probe import probe
from specengine.load.drafting import DraftMethod

logger = logging.getLogger(__name__)

_Candidate = tuple[Path, Comparison]
"""What may draft: its file, and how it would."""


@dataclass(frozen=True, slots=True)
class PreparedPair:
    """What `specengine.load.pair.Pair` needs to load a profile."""

    target: Path
    draft: Path | None
    method: DraftMethod
    vocabularies: Comparison | None
    use_extra_bufts: bool


def prepare(
    profile: Profile,
    registry: Registry,
    on_event: Callable[[Progress], None],
    cancel: Event,
    *,
    offline: bool | None = None,
    gpu_layers: GpuLayers = GpuLayers(),  # noqa: B008, it is immutable
    freed: Mapping[str, int] | None = None,
    convert_drafts: bool = False,
) -> PreparedPair:
    """Fetch what is missing and refuse what cannot work, before llama.cpp sees any of it.

    `gpu_layers` are wanted on GPUs, of whose memory `freed` bytes will be free by then.
    Blocks, for as long as a download takes. Raises SpecchatError or SpecEngineError with one line:
    a file that is not a chat model, ends the process, or has no vocabulary, a pair larger than
    memory.
    """
    use_extra_bufts = require_llama()

    def require_room(target: GGUF, draft: GGUF | None) -> None:
        require_memory(target, draft, profile.n_ctx, gpu_layers=gpu_layers, freed=freed)

    tried = partial(try_out, on_event=on_event, cancel=cancel)

    def examine(name: str, offline: bool | None = offline) -> _Candidate:
        draft = read_draft(fetch(name, registry, on_event, cancel, offline=offline))
        vocabularies = require_compatible(target, draft, registry.mask_token(name))
        if vocabularies.way == "head":
            extensions.require()
        require_room(target, draft)
        tried(target)
        if vocabularies.way == "head":
            tried(target, draft)
        else:
            tried(draft)
            if convert_drafts and draft.path != target.path:
                draft = cheaper(
                    draft, use_extra_bufts=use_extra_bufts, on_event=on_event, cancel=cancel
                )
        return draft.path, vocabularies

    target = read_target(fetch(profile.target, registry, on_event, cancel, offline=offline))
    own_heads = _has_own_heads(profile, target)
    draft, vocabularies = None, None
    if profile.draft == "auto" and not own_heads:
        names = [*registry.heads_for(profile.target), *profile.alternatives]
        draft, vocabularies = _first_that_suits(names, partial(examine, offline=True))
    elif profile.draft_model:
        draft, vocabularies = examine(profile.draft_model)
    if draft is None:
        require_room(target, None)
        tried(target, own_heads=own_heads)
    return PreparedPair(
        target.path,
        draft,
        "mtp" if own_heads else draft_method(profile, draft is not None),
        vocabularies,
        use_extra_bufts,
    )


def require_llama() -> bool:
    """Whether llama.cpp works here with repacked weights. Raises BackendError if it does not at
    all.
    """
    probed = probe(locations.cache_dir())
    if not probed.works:
        raise BackendError(explain_probe(probed))
    return probed.use_extra_bufts


def fetch(
    name: str,
    registry: Registry,
    on_event: Callable[[Progress], None],
    cancel: Event,
    *,
    offline: bool | None = None,
) -> Path:
    """As `ensure_model`, for a name that the registry knows."""
    return ensure_model(
        registry.resolve(name),
        offline=offline,
        cancel=cancel,
        on_progress=lambda done, total: on_event(Progress("download", done, total, name)),
    )


def _has_own_heads(profile: Profile, target: GGUF) -> bool:
    """Whether the heads in the target's own file are to draft. Raises ModelFileError if they
    are asked for and cannot.
    """
    asked_for = uses_own_heads(profile.draft)
    if not asked_for and profile.draft != "auto":
        return False
    try:
        check_own_heads(target)
    except ModelFileError as error:
        if asked_for:
            raise
        logger.info("not drafting with heads of its own: %s", error)
        return False
    return True


def draft_method(profile: Profile, has_model: bool) -> DraftMethod:
    """What drafts beside `profile`'s target; `has_model`: whether a draft model is loaded.

    Raises BackendError for the heads of a remote target.
    """
    if has_model:
        return "cascade"
    if uses_own_heads(profile.draft):
        raise BackendError(
            f"{profile.draft} drafts with heads in the target's own file, which a server does not "
            "share: draft by lookup or with a model"
        )
    return "lookup" if profile.draft == "auto" else profile.draft or "none"


def _first_that_suits(
    names: Sequence[str], examine: Callable[[str], _Candidate]
) -> _Candidate | tuple[None, None]:
    """The first head or draft model that is here, and works and fits beside the target."""
    for name in names:
        try:
            return examine(name)
        except CancelledError:
            raise
        except (SpecchatError, SpecEngineError) as error:
            logger.info("not drafting with %s: %s", name, error)
    return None, None
