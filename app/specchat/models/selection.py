"""Which target, drafter and sampling hold: a profile, settings over it, flags over both."""

from __future__ import annotations

from typing import Any

from specchat.config.settings import Settings
from specchat.errors import SpecchatError
from specchat.models.registry import Profile, Registry
from specchat.wire.address import is_url
from specengine.core.errors import SamplingError
from specengine.core.think import Think
from specengine.sampling import SamplingParams

_BARE = "custom"  # the name of a profile that is a target and nothing else


def select_profile(
    registry: Registry,
    settings: Settings,
    *,
    profile: str | None = None,
    target: str | None = None,
    draft: str | None = None,
    system: str | None = None,
    last: Profile | None = None,
) -> Profile:
    """The profile to load, with whatever the flags replace in it; `last` where neither they nor the
    settings name one.

    A target named without a profile stands alone: the settings of the default profile were chosen
    for another model. Raises RegistryError for unknown names.
    """
    if target is not None and profile is None:
        chosen = Profile(name=_BARE, description=target, target=target, draft="lookup")
    elif last is not None and profile is None and "profile" not in settings.model_fields_set:
        chosen = last
    else:
        chosen = registry.profile(profile or settings.profile)
    changes: dict[str, Any] = {"target": target, "draft": draft}
    if draft == "auto" and chosen.draft_model:
        changes["alternatives"] = (chosen.draft_model, *chosen.alternatives)
    return adjusted(_changed(chosen, changes), settings, system=system)


def adjusted(profile: Profile, settings: Settings, *, system: str | None) -> Profile:
    """`profile` with what settings and flags say of any: the context length, the system message."""
    return _changed(profile, {"n_ctx": settings.ctx, "system": system})


def other_context(profile: Profile, n_ctx: int) -> list[str]:
    """What to say where the context that was loaded for `profile` has `n_ctx` tokens, and another
    number was asked for; nothing if nobody asked, or if 0 says that it is not known.
    """
    if n_ctx in (0, profile.n_ctx) or "n_ctx" not in profile.model_fields_set:
        return []
    why = (
        "the server has no other" if is_url(profile.target) else "the model was trained for no more"
    )
    return [f"{profile.target}: the context has {n_ctx} tokens, not {profile.n_ctx}: {why}"]


def as_served(
    profile: Profile, *, name: str, system: str | None, sampling: dict[str, Any]
) -> Profile:
    """`profile`, and what it leaves open as the server of its target has it. Sampling settings that
    nobody here knows are left out. Raises SpecchatError for those that cannot be.
    """
    theirs = {key: value for key, value in sampling.items() if key in SamplingParams.model_fields}
    own = profile.sampling.model_dump(exclude_unset=True)
    try:
        merged = SamplingParams.checked(**{**theirs, **own})
    except SamplingError as error:
        raise SpecchatError(
            f"{profile.target} recommends sampling settings that cannot be used: {error}"
        ) from error
    return profile.model_copy(
        update={
            "name": name if profile.name == _BARE else profile.name,
            "system": system if profile.system is None else profile.system,
            "sampling": merged,
        }
    )


def served_profile(profile: Profile) -> dict[str, Any] | None:
    """What a server says of the profile that it serves, in JSON; None for a target alone."""
    if profile.name == _BARE:
        return None
    return {
        "name": profile.name,
        "system": profile.system,
        "sampling": profile.sampling.to_json(exclude_unset=True),
    }


def _changed(profile: Profile, changes: dict[str, Any]) -> Profile:
    return profile.model_copy(update={k: v for k, v in changes.items() if v is not None})


def select_think(profile: Profile, settings: Settings, flag: Think | None) -> Think | None:
    """The flag over settings over the profile; None leaves it to the model's template."""
    return flag or settings.think or profile.think


def select_sampling(profile: Profile, settings: Settings, flags: dict[str, Any]) -> SamplingParams:
    """Flags over settings over the profile over llama.cpp's defaults. Raises SamplingError."""
    given = {name: value for name, value in flags.items() if value is not None}
    return SamplingParams.checked(
        **{
            **profile.sampling.model_dump(exclude_unset=True),
            **settings.sampling_overrides,
            **given,
        }
    )
