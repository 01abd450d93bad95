"""What the screen needs from the rest of the program, so that tests can give it less."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.backend import Event
from specchat.chats import ChatStore
from specchat.models.registry import Model, Profile, Registry
from specchat.models.scan import Found
from specchat.tui.theme import DARK
from specengine.chat.chat_template import Turn
from specengine.core.events import Progress


class Runtime(Protocol):
    """The models behind the chat; `specchat.backends.runtime.Runtime` is the real one."""

    @property
    def profile(self) -> Profile | None:
        """What is loaded."""

    async def load(self, profile: Profile, on_event: Callable[[Progress], None]) -> None:
        """`on_event` may be called from other threads."""

    @property
    def n_ctx(self) -> int:
        """Tokens of context that it has; 0 if that is not known."""

    @property
    def placement(self) -> str:
        """What of it is on which GPU, in one line; empty if nothing is."""

    @property
    def gpu_bytes(self) -> Mapping[str, int]:
        """What it takes of each GPU's memory, by its name."""

    def answer(self, turns: Sequence[Turn], options: AnswerOptions) -> AsyncIterator[Event]:
        """Progress, chunks, and exactly one Finished."""

    async def can_verify(self) -> bool:
        """Whether the target could verify now what it has not."""

    def cancel(self) -> None:
        """Ends the running load or answer; returns at once."""

    async def read_ahead(self, turns: Sequence[Turn], typed: str, options: AnswerOptions) -> None:
        """Evaluates what the next prompt begins with, until something else is asked for."""

    def stop_reading(self) -> None:
        """Ends that; returns at once."""

    async def keep(self, turns: Sequence[Turn], typed: str, options: AnswerOptions) -> None:
        """Keeps what is evaluated of the chat for when it is opened again."""

    async def close(self) -> None:
        """Frees the models."""


@dataclass(frozen=True)
class Services:
    """The functions block and are called in threads; all but `open_store` may raise OSError too."""

    runtime: Runtime
    registry: Registry
    open_store: Callable[[], ChatStore]
    """Raises SpecchatError if chats cannot be kept."""
    options: Callable[[Profile], AnswerOptions]
    profile: Profile | None = None
    """What was chosen by a flag, in the settings or earlier; None shows the first-run screen."""
    adjusted: Callable[[Profile], Profile] = field(default=lambda profile: profile)
    """A profile with what flags and settings say of any profile."""
    remember: Callable[[Profile], None] = field(default=lambda profile: None)
    """Makes a choice hold for the next start too."""
    missing: Callable[[Profile], Sequence[Model]] = field(default=lambda profile: ())
    """The models of a profile that would have to be downloaded."""
    placement: Callable[[Profile], str] = field(default=lambda profile: "")
    """What of a profile's models is or would be on GPUs, in one line; empty if nothing."""
    scan: Callable[[], Sequence[Found]] = field(default=lambda: ())
    """GGUF files that are already on this computer."""
    unsent: str = ""
    """What was typed and not sent when the program ended last."""
    keep_unsent: Callable[[str], None] = field(default=lambda text: None)
    """Keeps that for the next start."""
    theme: str = DARK.name
