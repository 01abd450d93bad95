"""What the dialogs have in common: a box with a list, closed by Escape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from specchat.printable import one_line, printable

Result = TypeVar("Result")

HINT = "$foreground-muted"


def choice(title: str, detail: str, *, note: str = "", key: str = "") -> Content:
    """A line to choose, with a note beside it and a detail below; none of it is markup."""
    head = Content.assemble((f" {key} ", "bold $background on $accent"), "  ") if key else Content()
    return Content.assemble(
        head,
        (one_line(title), "bold"),
        ("  " + one_line(note) if note else "", "$accent"),
        "\n",
        (" " * head.cell_length + one_line(detail), HINT),
    )


class ListDialog(ModalScreen[Result | None], Generic[Result]):
    """Shows options; a subclass fills them in and says what a choice means."""

    DEFAULT_CSS = """
    ListDialog {
        align: center middle;
        background: $background 80%;

        #box {
            width: 76;
            max-width: 100%;
            height: auto;
            max-height: 90%;
            background: $surface;
            border: round $accent 50%;
            border-title-color: $foreground;
            border-title-style: bold;
            border-subtitle-color: $foreground-muted;
            padding: 1 1 0 1;
        }

        OptionList, OptionList:focus {
            height: auto;
            max-height: 100%;
            padding: 0;
            background: $surface;
            background-tint: $foreground 0%;
            border: none;

            & > .option-list--option { padding: 0 1; }
            & > .option-list--option-highlighted {
                color: $foreground;
                background: $panel;
                text-style: none;
            }
        }

        &.-short #box { max-height: 100%; padding: 0; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "close", "Close", priority=True),
    ]

    title_text: ClassVar[str] = ""
    hint_text: ClassVar[str] = "Enter chooses · Esc closes"

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = self.title_text
            box.border_subtitle = self.hint_text
            yield from self.compose_above()
            yield OptionList(markup=False)
            yield from self.compose_below()

    def compose_above(self) -> ComposeResult:
        """What stands above the list."""
        return ()

    def compose_below(self) -> ComposeResult:
        """What stands below the list."""
        return ()

    def set_choices(self, choices: Iterable[tuple[str, Content]]) -> None:
        """Replaces the options: ids and what they show."""
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(content, id=identity) for identity, content in choices])
        if options.option_count:
            options.highlighted = 0

    def hand_on(self, result: Result | None) -> None:
        """Closes with what another dialog returned, if that is anything."""
        if result is not None:
            self.dismiss(result)

    def action_close(self) -> None:
        self.dismiss(None)


class Explanation(Static):
    """A paragraph above the list."""

    DEFAULT_CSS = """
    Explanation { margin: 0 1 1 1; height: auto; color: $foreground 85%; }
    """

    def __init__(self, text: str) -> None:
        super().__init__(Content(printable(text)))

    def show(self, text: str) -> None:
        self.update(Content(printable(text)))
