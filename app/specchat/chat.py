"""The chat screen, with everything it needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from specchat.backends.kept_states import KeptStates
from specchat.chats import ChatStore
from specchat.chats.earlier_answers import EarlierAnswers
from specchat.cli.flags import (
    profile_flags,
    runtime_of,
    settings_of,
    to_answer_options,
)
from specchat.config import locations
from specchat.config.log import log_to_file
from specchat.config.settings import Settings
from specchat.config.unsent import keep_unsent, take_unsent
from specchat.doctor.gpu import planned
from specchat.errors import SpecchatError
from specchat.models.last_profile import last_profile, remember_profile
from specchat.models.registry import Model, Profile, Registry, load_registry
from specchat.models.scan import scan
from specchat.models.selection import adjusted, select_profile
from specchat.models.store import ModelStore
from specchat.tui.app import SpecchatApp
from specchat.tui.services import Services
from specchat.tui.terminal import terminal_for_screen


def run_chat(flags: Mapping[str, Any]) -> int:
    """Open the chat with what `flags` name, or with what was chosen in settings or earlier.

    Returns the exit code. Raises SpecchatError if the terminal cannot show it.
    """
    if os.environ.get("TERM") == "dumb":
        raise SpecchatError(
            "this terminal (TERM=dumb) cannot show the chat: ask with `specchat ask`, or set TERM "
            "to what it really is"
        )
    log_to_file()
    settings = settings_of(flags)
    registry = load_registry(locations.registry_file())

    states = KeptStates(locations.states_dir(), settings.kept_states_mb * 2**20)

    opened: list[ChatStore] = []

    def open_store() -> ChatStore:
        store = ChatStore(locations.database_file(), on_delete=states.forget)
        states.keep_only({chat.id for chat in store.chats(limit=-1)})
        opened[:] = [store]
        return store

    earlier = EarlierAnswers(lambda: opened[-1] if opened else None)
    services = Services(
        runtime=runtime_of(
            settings, registry, earlier=earlier if settings.earlier_answers else None, states=states
        ),
        registry=registry,
        open_store=open_store,
        options=partial(to_answer_options, settings, flags),
        profile=_chosen(registry, settings, flags),
        adjusted=partial(adjusted, settings=settings, system=flags["system"]),
        remember=remember_profile,
        missing=partial(_missing, registry),
        placement=lambda profile: _placement(services, settings, profile),
        scan=lambda: scan(locations.models_dir()),
        unsent=take_unsent(),
        keep_unsent=keep_unsent,
        theme=settings.theme,
    )
    app = SpecchatApp(services)
    with terminal_for_screen(locations.log_file()):
        app.run()
    for store in opened:
        store.close()
    return app.return_code or 0


def _chosen(registry: Registry, settings: Settings, flags: Mapping[str, Any]) -> Profile | None:
    """By flags, else by settings, else as last time; None at the first start."""
    last = last_profile(registry)
    is_named = any(flags[name] is not None for name in ("profile", "target", "draft"))
    if last is None and not is_named and "profile" not in settings.model_fields_set:
        return None
    return select_profile(registry, settings, last=last, **profile_flags(flags))


def _placement(services: Services, settings: Settings, profile: Profile) -> str:
    runtime, loaded = services.runtime, services.runtime.profile
    if loaded is not None and (loaded.name, loaded.target) == (profile.name, profile.target):
        return runtime.placement
    return planned(services.adjusted(profile), services.registry, settings.gpu, runtime.gpu_bytes)


def _missing(registry: Registry, profile: Profile) -> list[Model]:
    store = ModelStore(locations.models_dir())
    models = [registry.resolve(name) for name in profile.models]
    return [m for m in models if isinstance(m, Model) and store.receipt(m) is None]
