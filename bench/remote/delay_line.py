"""A line between a client and a server on this computer, as long and as bad as one wants it."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 1 << 14


@dataclass
class Line:
    """May be changed while the proxy runs; times are seconds, sizes bytes."""

    round_trip_s: float = 0.0
    jitter_s: float = 0.0
    """Added to each way, at random up to this; bytes keep their order."""
    bytes_per_s: float | None = None
    cut_after: int | None = None
    """Connections break when the server has sent so much over them."""
    cuts: int | None = None
    """How often that happens; None: always."""
    down: bool = False
    """No connection comes through."""


@dataclass
class Traffic:
    """What has gone through."""

    up: int = 0
    down: int = 0
    connections: int = 0
    cut: int = 0


@dataclass
class DelayProxy:
    """`with DelayProxy(url) as proxy:` forwards `proxy.url` to `url`, in a thread of its own."""

    target: str
    line: Line = field(default_factory=Line)
    traffic: Traffic = field(default_factory=Traffic)
    seed: int = 1

    def is_complete(self, gathered: bytes, *, is_down: bool) -> bool:
        """Whether what has come is passed on now: no, for proxies that buffer."""
        return True

    def __enter__(self) -> Self:
        self._rng = random.Random(self.seed)  # noqa: S311, this is no secret
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        started = threading.Event()

        async def main() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
            started.set()

        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(main(), self._loop).result()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            self._server.close()
            self._cut_all()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Break every connection now."""
        self._loop.call_soon_threadsafe(self._cut_all)

    def _cut_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.target)
        self.traffic.connections += 1
        if self.line.down:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(parts.hostname, parts.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        with suppress(asyncio.CancelledError):  # at the end of the test
            await asyncio.gather(
                self._pipe(reader, back, is_down=False), self._pipe(there, writer, is_down=True)
            )

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_down: bool
    ) -> None:
        """Bytes arrive in order, each as late as the line says."""
        pending: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(self._deliver(pending, writer))
        sent, free_at, gathered = 0, 0.0, b""
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                line, now = self.line, self._loop.time()
                sent += len(data)
                if is_down and self._breaks(sent):
                    self._cut_pair(writer)
                    break
                if is_down:
                    self.traffic.down += len(data)
                else:
                    self.traffic.up += len(data)
                gathered += data
                if not self.is_complete(gathered, is_down=is_down):
                    continue
                data, gathered = gathered, b""
                due = now + line.round_trip_s / 2 + self._rng.random() * line.jitter_s
                if line.bytes_per_s is not None:
                    due += len(data) / line.bytes_per_s
                free_at = max(free_at, due)
                pending.put_nowait((free_at, data))
        pending.put_nowait((free_at, b""))
        await delivering

    async def _deliver(
        self, pending: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while True:
                due, data = await pending.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        with suppress(OSError):
            writer.close()

    def _breaks(self, sent: int) -> bool:
        line = self.line
        if line.cut_after is None or sent < line.cut_after or line.cuts == 0:
            return False
        if line.cuts is not None:
            line.cuts -= 1
        self.traffic.cut += 1
        return True

    def _cut_pair(self, writer: asyncio.StreamWriter) -> None:
        """The other direction notices when it writes or reads next; clients see a reset."""
        writer.transport.abort()
        self._writers.discard(writer)
