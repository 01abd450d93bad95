"""The program: the command line, and the chat that it opens. Nothing imports this module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specchat.cli.main import main as command_line


def main() -> None:
    """Entry point."""
    command_line(_open_chat)


def _open_chat(flags: Mapping[str, Any]) -> int:
    from specchat.chat import run_chat  # late: most commands need no screen

    return run_chat(flags)


if __name__ == "__main__":
    main()
