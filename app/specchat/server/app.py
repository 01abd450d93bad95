"""The routes of the server, and what every request passes: keys, errors, counters, the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from specchat.server import anthropic, ollama
from specchat.server.anthropic import AnthropicHandlers
from specchat.server.completions import CompletionHandlers
from specchat.server.metrics import CONTENT_TYPE
from specchat.server.ollama import OllamaHandlers
from specchat.server.openapi import description
from specchat.server.refusal import Refusal
from specchat.server.service import Service
from specchat.server.verify import VerifyHandlers

logger = logging.getLogger("specchat.server")

_API = "/specchat/v1"
_SWEEP_S = 5.0
_MOST_SHOWN = 80  # characters of a path that is unknown
_CLOSE_S = 5.0  # how long a model's thread may take to end

Handler = Callable[[Request], Awaitable[Response]]
Refused = Callable[[Refusal], Response]
"""Gives a refusal the shape of a protocol."""


def make_app(service: Service, origins: Sequence[str] = ()) -> Starlette:
    """The ASGI application of one served model. `origins`: whose web pages may use it."""
    verify, completions = VerifyHandlers(service), CompletionHandlers(service)
    messages, api = AnthropicHandlers(service), OllamaHandlers(service)

    def route(
        path: str, method: str, handler: Handler, refused: Refused = Refusal.response
    ) -> Route:
        return Route(path, _Guarded(service, path, handler, refused), methods=[method])

    async def health(request: Request) -> Response:
        return _health(service)

    async def root(request: Request) -> Response:
        return PlainTextResponse("specchat is running: GET /openapi.json tells what it answers\n")

    pages = Middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
    )
    return Starlette(
        middleware=[pages] if origins else [],
        routes=[
            Route("/", root, methods=["GET"]),
            Route("/health", health, methods=["GET"]),
            route("/metrics", "GET", lambda request: _metrics(service)),
            route("/openapi.json", "GET", lambda request: _openapi()),
            route(f"{_API}/info", "GET", verify.info),
            route(f"{_API}/vocab/{{fingerprint}}", "GET", verify.vocabulary),
            route(f"{_API}/sessions", "POST", verify.create),
            route(f"{_API}/sessions/{{session}}", "DELETE", verify.delete),
            route(f"{_API}/sessions/{{session}}/generate", "POST", verify.generate),
            route(f"{_API}/sessions/{{session}}/drafts", "POST", verify.drafts),
            route("/v1/models", "GET", completions.models),
            route("/v1/models/{name:path}", "GET", completions.model),
            route("/v1/chat/completions", "POST", completions.chat),
            route("/v1/completions", "POST", completions.text),
            route("/v1/messages", "POST", messages.create, anthropic.refused),
            route("/v1/messages/count_tokens", "POST", messages.count, anthropic.refused),
            route("/api/version", "GET", api.version, ollama.refused),
            route("/api/tags", "GET", api.tags, ollama.refused),
            route("/api/show", "POST", api.show, ollama.refused),
            route("/api/chat", "POST", api.chat, ollama.refused),
            route("/api/generate", "POST", api.generate, ollama.refused),
            route("/v1/embeddings", "POST", completions.refuse),
            route("/v1/responses", "POST", completions.refuse),
        ],
        lifespan=lambda app: _lifespan(service),
        exception_handlers={HTTPException: _http_error},
    )


class _Guarded:
    """A handler behind the key check, with refusals as responses, counted and logged."""

    def __init__(self, service: Service, path: str, handler: Handler, refused: Refused) -> None:
        self._service = service
        self._path = path
        self._handler = handler
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        status = 0

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            response = await self._respond(Request(scope, receive))
            await response(scope, receive, observed)
        except (ClientDisconnect, asyncio.CancelledError):
            pass  # nobody is left who could be told anything, or the server ends
        finally:
            self._service.metrics.count("requests", route=self._path, status=str(status))
            # The route, not the path: a session's id opens the session.
            logger.info(
                "request",
                extra={
                    "fields": {
                        "method": scope["method"],
                        "route": self._path,
                        "status": status,
                        "ms": round(1000 * (time.perf_counter() - started), 1),
                    }
                },
            )

    async def _respond(self, request: Request) -> Response:
        try:
            request.state.owner = self._service.keys.owner(request.headers)
            return await self._handler(request)
        except Refusal as refusal:
            return self._refused(refusal)
        except ClientDisconnect:
            raise
        except asyncio.CancelledError:  # the server ends before the request has
            return self._refused(Refusal(503, "shutdown", "the server is shutting down"))
        except Exception:
            logger.exception("a handler failed", extra={"fields": {"route": self._path}})
            message = "internal error; see the server's log for details"
            return self._refused(Refusal(500, "internal", message))


@contextlib.asynccontextmanager
async def _lifespan(service: Service) -> AsyncIterator[None]:
    async def sweep() -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            service.sessions.expire()

    sweeping = asyncio.create_task(sweep())
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.to_thread(service.model.close, _CLOSE_S)


def _health(service: Service) -> Response:
    fault = service.model.scheduler.fault
    if fault is not None:
        return JSONResponse({"status": "failing", "reason": fault}, 503)
    return JSONResponse({"status": "ok"})


async def _metrics(service: Service) -> Response:
    load = service.model.scheduler.load
    gauges = {
        "sessions": len(service.sessions),
        "answers_running": load.running,
        "answers_waiting": load.waiting,
        "places_held": load.places_held,
        "passes": service.model.scheduler.passes,
    }
    return PlainTextResponse(service.metrics.render(gauges), media_type=CONTENT_TYPE)


async def _openapi() -> Response:
    return JSONResponse(description())


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: unknown paths and methods, in the shape of their protocol."""
    assert isinstance(error, HTTPException)
    path, detail = request.url.path, error.detail
    if error.status_code == 404:
        detail = f"there is no {path[:_MOST_SHOWN]} here: GET /openapi.json tells what there is"
    refusal = Refusal(error.status_code, "http", detail, headers=error.headers)
    if path.startswith("/api/"):
        return ollama.refused(refusal)
    if path.startswith("/v1/messages"):
        return anthropic.refused(refusal)
    return refusal.response()
