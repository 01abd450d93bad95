"""Looks whether the target is back, while the last answer has words that it has not verified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from specchat.tui.services import Runtime

EVERY_S = 10.0


class Verifier:
    """Nobody waits for it, and nothing is begun while the person wants something else."""

    def __init__(
        self, runtime: Runtime, is_wanted: Callable[[], bool], verify: Callable[[], None]
    ) -> None:
        """`is_wanted`: whether there is something to verify, and the engine is free for it."""
        self._runtime = runtime
        self._is_wanted = is_wanted
        self._verify = verify

    async def run(self) -> None:
        """Never ends."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> bool:
        """Verify now, if that is possible; whether it was."""
        possible = self._is_wanted() and await self._runtime.can_verify() and self._is_wanted()
        if possible:
            self._verify()
        return possible
