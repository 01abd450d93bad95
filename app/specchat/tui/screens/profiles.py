"""Which models to use: profiles of the registry, or files that are already on this computer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Container, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.widgets import OptionList

from specchat.models.registry import Model, Profile
from specchat.models.scan import Found
from specchat.models.sizes import readable_size
from specchat.tui.screens.dialog import Explanation, ListDialog, choice
from specchat.tui.services import Services

_SCAN = "scan"


class ProfilesDialog(ListDialog[Profile]):
    """Profiles, what each costs to fetch, and a way to the files on this computer."""

    title_text: ClassVar[str] = "Models"

    def __init__(self, services: Services, current: Profile | None) -> None:
        super().__init__()
        self._services = services
        self._current = current
        self._missing: dict[str, Sequence[Model]] = {}
        self._placements: dict[str, str] = {}
        self._profiles = dict(services.registry.profiles)
        if current is not None:
            self._profiles.setdefault(current.name, current)

    def on_mount(self) -> None:
        self._list()
        if self._current is not None:
            names = list(self._profiles)
            self.query_one(OptionList).highlighted = names.index(self._current.name)
        self._look_closer()

    @work
    async def _look_closer(self) -> None:
        """What of a profile would have to be fetched, and what of it would be on GPUs."""
        for profile in self._profiles.values():
            missing = await asyncio.to_thread(self._services.missing, profile)
            self._missing[profile.name] = missing
            if not missing:
                placement = await asyncio.to_thread(self._services.placement, profile)
                self._placements[profile.name] = placement
        self._list()

    def _list(self) -> None:
        highlighted = self.query_one(OptionList).highlighted
        profiles = [
            (
                f"profile-{profile.name}",
                choice(profile.name, self._detail(profile), note=self._note(profile)),
            )
            for profile in self._profiles.values()
        ]
        scan = choice("Other models on this computer", "GGUF files that other programs keep.")
        self.set_choices([*profiles, (_SCAN, scan)])
        if highlighted is not None:
            self.query_one(OptionList).highlighted = highlighted

    def _detail(self, profile: Profile) -> str:
        placement = self._placements.get(profile.name)
        return f"{profile.description} · {placement}" if placement else profile.description

    def _note(self, profile: Profile) -> str:
        if self._current is not None and profile.name == self._current.name:
            return "in use"
        if not (absent := self._missing.get(profile.name)):
            return ""
        sizes = [model.bytes for model in absent if model.bytes]
        return f"download {readable_size(sum(sizes))}" if len(sizes) == len(absent) else "download"

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        if event.option_id == _SCAN:
            self.app.push_screen(FoundDialog(self._services), self.hand_on)
        elif event.option_id is not None:
            self.dismiss(self._profiles[event.option_id.removeprefix("profile-")])


class FoundDialog(ListDialog[Profile]):
    """GGUF files on this computer; the chosen one becomes the target of a profile of its own."""

    title_text: ClassVar[str] = "Models on this computer"

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._found: Sequence[Found] = ()

    def compose_above(self) -> ComposeResult:
        yield Explanation("Looking for models…")

    @work
    async def on_mount(self) -> None:
        explanation = self.query_one(Explanation)
        try:
            self._found = await asyncio.to_thread(self._services.scan)
        except OSError as error:
            explanation.show(f"The computer cannot be searched: {error}")
            return
        if self._found:
            explanation.show("A chosen file is used where it is; drafts are looked up in the text.")
        else:
            explanation.show(
                "No GGUF file was found where Hugging Face, LM Studio, Ollama and llama.cpp keep "
                "theirs. `specchat --target FILE` uses one from anywhere."
            )
        self.set_choices(
            (str(number), choice(found.name, f"{found.keeper}, {readable_size(found.size)}"))
            for number, found in enumerate(self._found)
        )

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        if event.option_id is not None:
            found = self._found[int(event.option_id)]
            self.dismiss(profile_of(found, self._services.registry.profiles))


def profile_of(found: Found, taken: Container[str]) -> Profile:
    """A profile for a file: the text itself drafts, which suits every vocabulary.

    Its name comes from the file's and is none of the `taken` ones.
    """
    name = found.name.lower().rpartition("/")[2].removesuffix(".gguf")
    slug = re.sub(r"[^a-z0-9._-]+", "-", name).strip("._-")[:48] or "model"
    return Profile(
        name=f"{slug}-file" if slug in taken else slug,
        description=f"{found.name} ({found.keeper})",
        target=str(found.path),
        draft="lookup",
    )
