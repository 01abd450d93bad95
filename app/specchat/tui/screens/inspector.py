"""What happened in each round of an answer: the draft, the chances, the draws, the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static

from specchat.printable import one_line, printable
from specchat.tui.screens.dialog import ListDialog
from specengine.loop.inspection import Entry, InspectedRound, InspectedToken

_ACCEPTED, _REJECTED, _FAINT = "$text-success", "$text-error", "$foreground-muted"
_BAR = 20  # columns of a bar of probability 1
_WIDEST_TOKEN = 18

_RULES = {
    "token": "A draft token is accepted if its draw is below min(1, p/q).",
    "block": (
        "The draft is accepted up to the last token whose draw is below its limit, even if an "
        "earlier one was not."
    ),
    "coupled": (
        "Target and drafter draw with the same noise: a draft token is accepted if the target "
        "draws it too."
    ),
    "greedy": (
        "At temperature 0, a draft token is accepted if it is the target's most probable one."
    ),
    "typical": "Lossy: a draft token is accepted if the target finds it likely enough.",
}


@dataclass(frozen=True)
class Reply:
    """An answer of this session, with what was seen of its making."""

    text: str
    rounds: Sequence[InspectedRound]
    stats: Mapping[str, Any] = field(default_factory=dict)
    """`Statistics.model_dump`; empty while the answer is being made."""


class InspectorScreen(ListDialog[None]):
    """The rounds of a reply on top, the chosen one below; other replies to the left and right."""

    hint_text: ClassVar[str] = "↑↓ rounds · ←→ replies · PgUp PgDn scroll · Esc closes"

    DEFAULT_CSS = """
    InspectorScreen {
        background: $background 60%;

        #box { width: 96; height: 90%; padding: 1; }
        #reply { height: auto; max-height: 2; color: $foreground-muted; padding: 0 1; }
        #drafters { height: auto; color: $foreground-muted; padding: 0 1; }
        OptionList, OptionList:focus { height: 1fr; margin: 1 0; }
        VerticalScroll { height: 2fr; padding: 0 1; }
        #round { height: auto; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+l", "close", "Close", priority=True),
        Binding("left", "turn(-1)", "Previous reply", priority=True),
        Binding("right", "turn(1)", "Next reply", priority=True),
        Binding("pageup", "scroll_round('page_up')", "Scroll up", priority=True, show=False),
        Binding("pagedown", "scroll_round('page_down')", "Scroll down", priority=True, show=False),
    ]

    def __init__(self, replies: Sequence[Reply]) -> None:
        """`replies`, oldest first, are not empty; the last one is shown."""
        super().__init__()
        self._replies = replies
        self._shown = len(replies) - 1

    def compose_above(self) -> ComposeResult:
        yield Static(id="reply")
        yield Static(id="drafters")

    def compose_below(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(id="round")

    def on_mount(self) -> None:
        self._show_reply()
        self.query_one(OptionList).focus()

    def action_turn(self, step: int) -> None:
        shown = min(max(self._shown + step, 0), len(self._replies) - 1)
        if shown != self._shown:
            self._shown = shown
            self._show_reply()

    def action_scroll_round(self, where: str) -> None:
        getattr(self.query_one(VerticalScroll), f"scroll_{where}")(animate=False)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one(VerticalScroll).scroll_home(animate=False)
        seen = self._replies[self._shown].rounds[event.option_index]
        self.query_one("#round", Static).update(describe(seen))

    def _show_reply(self) -> None:
        reply = self._replies[self._shown]
        title = f"Inside reply {self._shown + 1} of {len(self._replies)}"
        self.query_one("#box").border_title = title
        self.query_one("#reply", Static).update(Content(one_line(reply.text)))
        self.query_one("#drafters", Static).update(Content(decisions(reply.stats)))
        self.set_choices((str(i), _line(i, seen)) for i, seen in enumerate(reply.rounds))


def decisions(stats: Mapping[str, Any]) -> str:
    """Who drafted in an answer, what became of it, and in how many rounds nobody did."""
    speculation = stats.get("speculation")
    if not speculation:
        return ""
    drafters = speculation.get("by_drafter", {})
    alone = speculation["rounds"] - sum(counts["rounds"] for counts in drafters.values())
    parts = [
        f"{one_line(name)} {counts['rounds']} ({counts['accepted']} of {counts['drafted']} "
        "accepted)"
        for name, counts in drafters.items()
    ]
    return "rounds: " + " · ".join([*parts, f"target alone {alone}"])


def describe(seen: InspectedRound) -> Content:
    """A round in full: a row for each draft token, then where the token after them came from."""
    parts: list[Content] = [Content.styled(_RULES.get(seen.rule, seen.rule), _FAINT)]
    if seen.draft:
        heading = f"\n{'drafted':<{_WIDEST_TOKEN}}{'q':>7}{'p':>7}{'p/q ≤ 1':>9}{'draw':>8}"
        parts.append(Content.styled(f"{heading}{'limit':>8}", "bold"))
        parts += map(_row, seen.draft)
    else:
        parts.append(Content("\nNothing was drafted: the pass gave the target's next token."))
    kind = "correction" if seen.is_correction else "bonus"
    source = "the residual, the part of p beyond q" if seen.from_residual else "p"
    parts.append(
        Content.assemble(
            (f"\n{kind} ", "bold"), (visible(seen.token.text), "bold $accent"), f", from {source}:"
        )
    )
    parts += (_bar(entry, entry.token == seen.token.token) for entry in seen.source)
    if all(entry.token != seen.token.token for entry in seen.source):
        parts.append(_bar(seen.token, drawn=True))
    return Content("\n").join(parts)


def visible(text: str) -> str:
    """A token's text with its white space shown, and nothing in it obeyed."""
    if not text:
        return "∅"
    shown = printable(text).replace("\n", "⏎").replace("\t", "⇥").replace(" ", "·")
    return shown if cell_len(shown) < _WIDEST_TOKEN else _cut(shown)


def _cut(text: str) -> str:
    while cell_len(text) > _WIDEST_TOKEN - 2:
        text = text[:-1]
    return text + "…"


def _line(i: int, seen: InspectedRound) -> Content:
    """A round in one line: the accepted and rejected tokens, and the token after them."""
    parts: list[str | tuple[str, str]] = [(f"{i + 1:>4}  ", _FAINT)]
    for token in seen.draft:
        parts.append((visible(token.text), _ACCEPTED if token.accepted else f"strike {_REJECTED}"))
        parts.append(" ")
    parts.append((visible(seen.token.text), "bold"))
    if seen.draft:
        parts.append((f"  {seen.accepted} of {len(seen.draft)}", _FAINT))
    return Content.assemble(*parts)


def _row(token: InspectedToken) -> Content:
    text = visible(token.text)
    padding = " " * (_WIDEST_TOKEN - cell_len(text))
    if token.p is None:
        return Content.assemble(
            (text, f"strike {_FAINT}"), padding, (f"{token.q:>7.3f}   not evaluated", _FAINT)
        )
    numbers = f"{token.q:>7.3f}{token.p:>7.3f}{token.ratio:>9.3f}{_number(token.draw)}"
    return Content.assemble(
        (text, _ACCEPTED if token.accepted else f"strike {_REJECTED}"),
        f"{padding}{numbers}{_number(token.limit)}  ",
        ("accepted", _ACCEPTED) if token.accepted else ("rejected", _REJECTED),
    )


def _number(value: float | None) -> str:
    return f"{'–':>8}" if value is None else f"{value:>8.3f}"


def _bar(entry: Entry, drawn: bool) -> Content:
    text = visible(entry.text)
    padding = " " * (_WIDEST_TOKEN - cell_len(text))
    bar = "█" * max(1, round(_BAR * entry.prob))
    style = "$accent" if drawn else _FAINT
    return Content.assemble((text, style), padding, f"{entry.prob:>7.3f} ", (bar, style))
