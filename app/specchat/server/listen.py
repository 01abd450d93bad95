"""Runs the application: socket, TLS, signals, log lines."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from specchat.errors import SpecchatError
from specchat.server.app import make_app
from specchat.server.service import Service
from specchat.wire.address import is_loopback

logger = logging.getLogger("specchat.server")

_KEEP_ALIVE_S = 180  # a person may think for a while; each new connection costs handshakes
_GRACE_S = 10  # for what is still being sent at the end


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen, with TLS where there is a certificate, and to which web pages."""

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None
    origins: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


def check_exposure(listen: Listen, *, has_keys: bool) -> None:
    """Raises SpecchatError if strangers could use the server."""
    if not has_keys and not is_loopback(listen.host):
        raise SpecchatError(
            f"{listen.host} can be reached from other computers, so keys are needed: set "
            "SPECCHAT_SERVER_KEY or --keys, or listen on 127.0.0.1"
        )


def serve(service: Service, listen: Listen) -> None:
    """Answer requests until a signal, then close the model; ends the process where that hangs.
    Raises SpecchatError if the port cannot be had.
    """
    check_exposure(listen, has_keys=bool(service.keys))
    config = uvicorn.Config(
        make_app(service, listen.origins),
        host=listen.host,
        port=listen.port,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.private_key,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        access_log=False,
        log_config=None,
        server_header=False,
        http="h11",
        ws="none",
    )
    try:
        _Server(config, service).run()
    except SystemExit as error:  # uvicorn's word for a port in use, a bad certificate
        raise SpecchatError(
            f"cannot listen on {listen.url}; the line above gives the cause"
        ) from error
    if not service.model.close(timeout=0):
        # Its thread is somewhere in llama.cpp, where the interpreter's own end could wait for it or
        # free what it works with.
        logger.error("the model does not stop: ending the process without it")
        logging.shutdown()
        os._exit(1)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Streams end now, with the reason: else uvicorn would wait for them. A second signal ends
        # whatever is still going on.
        self.force_exit = self.should_exit
        self.should_exit = True
        self._service.model.scheduler.stop()


class JsonLines(logging.Formatter):
    """One JSON object a line, for whatever collects logs."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + "Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_json() -> None:
    """Log lines as JSON to standard error: no texts, no keys, no session ids."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("specchat", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)
