"""Colours: quiet ones, with a single accent.

Muted text is 70% of the foreground: with Textual's own 60% it is hard to read on the light ground.
"""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="specchat-dark",
    primary="#8ab4f8",
    secondary="#9aa5b8",
    accent="#6fcfb0",
    foreground="#d8dce4",
    variables={"foreground-muted": "#d8dce4b3"},
    background="#14161a",
    surface="#1d2026",
    panel="#262a32",
    success="#9fce7f",
    warning="#e5b567",
    error="#ef7d87",
)

LIGHT = Theme(
    name="specchat-light",
    primary="#1f5fbf",
    secondary="#5b6678",
    accent="#0f7f63",
    foreground="#23272f",
    variables={"foreground-muted": "#23272fb3"},
    background="#fbfbf9",
    surface="#f0f0ec",
    panel="#e5e5e0",
    success="#3c7a1f",
    warning="#8f5f00",
    error="#b3303c",
    dark=False,
)

THEMES = (DARK, LIGHT)
