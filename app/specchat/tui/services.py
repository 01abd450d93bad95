"""What the screen needs from the rest of the program, so that tests can give it less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specchat.backends.answer_options import AnswerOptions
from specchat.backends.runtime import Runtime
from specchat.chats import ChatStore
from specchat.models.registry import Model, Profile, Registry
from specchat.models.scan import Found
from specchat.tui.theme import DARK


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
