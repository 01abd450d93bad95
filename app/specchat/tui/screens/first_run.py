"""The first screen that a person sees: what the built-in model is, and what would be better."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from specchat.models.registry import Profile
from specchat.models.sizes import readable_size
from specchat.tui.screens.dialog import Explanation, ListDialog, choice
from specchat.tui.screens.profiles import FoundDialog
from specchat.tui.services import Services

DEMONSTRATION = "tiny"
BETTER = "laptop"

_TEXT = (
    "specchat comes with a demonstration model: small, quick, and often wrong. A better one is "
    "one key away. Whichever you choose, what you type stays on this computer."
)


class FirstRunDialog(ListDialog[Profile]):
    """One key each: the larger pair, models that are already here, or going on as it is.

    Escape goes on as it is too, and asks again at the next start.
    """

    title_text: ClassVar[str] = "Welcome to specchat"
    hint_text: ClassVar[str] = "1, 2 or 3 · Ctrl+T chooses again later"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", f"choose('{BETTER}')", "The larger pair"),
        Binding("2", "scan", "Models on this computer"),
        Binding("3", f"choose('{DEMONSTRATION}')", "The demonstration"),
    ]

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services

    def compose_above(self) -> ComposeResult:
        yield Explanation(_TEXT)

    def on_mount(self) -> None:
        registry = self._services.registry
        better = registry.profile(BETTER)
        size = sum(registry.model(name).bytes or 0 for name in better.models)
        texts = (
            (
                BETTER,
                f"Qwen2.5 Coder 1.5B + 0.5B, {readable_size(size)}",
                "For programming. Downloaded now; Esc stops, and it goes on later.",
            ),
            (
                "scan",
                "A model that is already on this computer",
                "From Hugging Face, LM Studio, Ollama or llama.cpp.",
            ),
            (DEMONSTRATION, "Go on with the demonstration", "Answers at once. Do not believe it."),
        )
        self.set_choices(
            (name, choice(title, detail, key=str(number)))
            for number, (name, title, detail) in enumerate(texts, start=1)
        )

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        if event.option_id == "scan":
            self.action_scan()
        elif event.option_id is not None:
            self.action_choose(event.option_id)

    def action_choose(self, name: str) -> None:
        self.dismiss(self._services.registry.profile(name))

    def action_scan(self) -> None:
        self.app.push_screen(FoundDialog(self._services), self.hand_on)
