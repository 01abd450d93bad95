"""The chat as a Textual app."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Iterable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import HelpPanel

from specchat.printable import printable
from specchat.tui.screens.chat import ChatScreen
from specchat.tui.services import Services
from specchat.tui.theme import DARK, THEMES

logger = logging.getLogger(__name__)


class SpecchatApp(App[None]):
    """One chat screen, and dialogs over it."""

    TITLE = "specchat"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-tall")]  # noqa: RUF012

    CSS = """
    * {
        scrollbar-size-vertical: 1;
        scrollbar-color: $foreground 20%;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
    }

    Toast { background: $panel; max-width: 80%; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", id="quit", priority=True),
        Binding("f1", "keys", "Keys", id="keys"),
    ]

    def __init__(self, services: Services) -> None:
        super().__init__(driver_class=_driver())
        self._services = services
        self._is_quitting = False
        for theme in THEMES:
            self.register_theme(theme)

    def get_default_screen(self) -> ChatScreen:
        return ChatScreen(self._services)

    def on_mount(self) -> None:
        known = self._services.theme in self.available_themes
        self.theme = self._services.theme if known else DARK.name
        if not known:
            self.notify(f"There is no theme {self._services.theme!r}.", severity="warning")
        self._leave_when_told_to()

    def _leave_when_told_to(self) -> None:
        """`kill`, and the end of the terminal, end the chat as Ctrl+Q does."""
        if sys.platform != "win32":
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._start_to_quit)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """As Textual's, but whatever is in `message` is shown and never obeyed."""
        super().notify(
            printable(message), title=title, severity=severity, timeout=timeout, markup=markup
        )

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        if isinstance(screen, ChatScreen):
            yield from screen.commands()
        yield SystemCommand("Theme", "Choose other colours", self.action_change_theme)
        yield SystemCommand("Keys", "Show or hide which key does what (F1)", self.action_keys)
        yield SystemCommand("Quit", "Save and leave (Ctrl+Q)", self.action_quit)

    def action_keys(self) -> None:
        """Shows the panel of keys, or hides it again."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    async def action_quit(self) -> None:
        """Stops what runs, saves what came, and leaves."""
        self._start_to_quit()

    def _start_to_quit(self) -> None:
        if not self._is_quitting:  # a second start would cut off the first amid its saving
            self._is_quitting = True
            self.run_worker(self._quit(), group="quit")

    def _fatal_error(self) -> None:
        """Leaves with one line. A traceback would show the person's words; it goes to the log."""
        error = self._exception
        logger.critical("the screen failed", exc_info=error)
        self.panic(
            f"specchat: internal error ({type(error).__name__}); what was said is saved, and "
            "`specchat locate` tells where the log is"
        )

    async def _quit(self) -> None:
        chat = self.screen_stack[0]
        problem = await chat.leaving.shut_down() if isinstance(chat, ChatScreen) else ""
        if problem:
            self.exit(return_code=1, message=Text(printable(f"specchat: {problem}")))
        else:
            self.exit()


def _driver() -> type[Driver] | None:
    """None if Textual's own is used."""
    if sys.platform == "win32":
        return None
    from specchat.tui.driver import TerminalDriver

    return TerminalDriver
