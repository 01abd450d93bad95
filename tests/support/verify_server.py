"""The real server over a real model, in a thread of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from specchat.server.app import make_app
from specchat.server.keys import Keys
from specchat.server.limits import Limits
from specchat.server.service import Service
from specengine.cache.context import Logits
from specengine.cache.costs import WIDEST, PassCosts
from specengine.files.gguf import read_gguf
from specengine.llama.batch_cache import LlamaBatchCache
from specengine.load.served import ServedModel, ServeOptions
from specengine.serve.batch_cache import Part
from support.loopback import listening


@dataclass
class VerifyServer:
    """`url` has no final slash."""

    url: str
    service: Service

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False, timeout=60, **options)  # type: ignore[arg-type]

    def wait_until_idle(self) -> None:
        """Until no answer is under way any more."""
        scheduler = self.service.model.scheduler
        self.wait_until(lambda: not (scheduler.load.running or scheduler.load.waiting))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """The server ends a request a moment after its answer, and after its client."""
        deadline = time.monotonic() + 20
        while not condition():
            load, sessions = self.service.model.scheduler.load, len(self.service.sessions)
            assert time.monotonic() < deadline, f"still {load}, {sessions} sessions"
            time.sleep(0.02)


@contextmanager
def running_server(
    model: Path,
    *,
    keys: tuple[str, ...] = (),
    limits: Limits | None = None,
    places: int = 3,
    n_ctx: int = 512,
    use_extra_bufts: bool = True,
    tls: tuple[Path, Path] | None = None,
) -> Iterator[VerifyServer]:
    served = ServedModel(
        model,
        ServeOptions(n_ctx=n_ctx, places=places, n_threads=1, use_extra_bufts=use_extra_bufts),
    )
    service = Service(
        "tiny",
        served,
        read_gguf(model),
        Keys(keys),
        sha256="0" * 64,
        limits=limits or Limits(),
    )
    config = uvicorn.Config(
        make_app(service),
        host="127.0.0.1",
        port=0,
        log_config=None,
        access_log=False,
        http="h11",
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    with listening(uvicorn.Server(config)) as bound:
        try:
            yield VerifyServer(f"{'https' if tls else 'http'}://127.0.0.1:{bound}", service)
        finally:
            service.model.scheduler.stop()  # as a signal does


class _SameCosts(PassCosts):
    """A wider pass costs no more, whatever is observed."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(range(1, WIDEST + 1), 0.01))

    def observe(self, width: int, seconds: float) -> None:
        pass


@contextmanager
def flat_costs(server: VerifyServer) -> Iterator[None]:
    """The server takes all the hints that come, on whatever CPU: they seem to cost nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.service.model.scheduler, "costs", _SameCosts())
        yield


@contextmanager
def slow_passes(seconds: float = 0.03) -> Iterator[None]:
    """Each pass of a server takes as long as a larger model's, so that drafts come in time."""
    decode = LlamaBatchCache.decode

    def slowly(self: LlamaBatchCache, parts: Sequence[Part]) -> list[Logits]:
        time.sleep(seconds)
        self.decode_s += seconds
        return decode(self, parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LlamaBatchCache, "decode", slowly)
        yield
