"""The OpenAPI description of the server; docs/openapi.json is this, and a test says so."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from specchat.server.anthropic_request import CountTokens, Messages
from specchat.server.bodies import JSON, NDJSON
from specchat.server.chat_request import ChatCompletion
from specchat.server.ollama_request import OllamaChat, OllamaGenerate, OllamaShow
from specchat.server.text_request import TextCompletion
from specchat.version import __version__
from specchat.wire.messages import Generate, Hint, NewSession

_ERRORS = {
    "400": "malformed",
    "401": "no key, or a wrong one",
    "403": "without keys, only this computer is served",
    "408": "the rest of the body did not arrive",
    "413": "the body is longer than allowed",
    "415": "another content type is expected",
    "429": "busy: try again after Retry-After seconds",
}
_GONE = {"410": "there is no such session, or no longer: create one"}
_FAILING = {"503": "the model failed or hangs, or the server is shutting down"}
_MESSAGES = (
    *(NewSession, Generate, Hint, ChatCompletion, TextCompletion, Messages, CountTokens),
    *(OllamaChat, OllamaGenerate, OllamaShow),
)


def description() -> dict[str, Any]:
    """OpenAPI 3.1."""
    _, schemas = models_json_schema(
        [(message, "validation") for message in _MESSAGES],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "specchat serve",
            "version": __version__,
            "description": "Verifies drafts of clients with its model. See docs/protocol.md.",
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
        "paths": {
            "/": {"get": _operation("That a server is here", {"200": "text/plain"})},
            "/health": {
                "get": _operation(
                    "Whether the server can answer",
                    {"200": JSON},
                    errors={"503": "why it does not"},
                )
            },
            "/metrics": {"get": _operation("Counters for Prometheus", {"200": "text/plain"})},
            "/specchat/v1/info": {"get": _operation("Models, limits, load", {"200": JSON})},
            "/specchat/v1/vocab/{fingerprint}": {
                "parameters": [_path("fingerprint")],
                "get": _operation(
                    "The vocabulary",
                    {"200": JSON},
                    errors={"404": "this server has another vocabulary"},
                ),
            },
            "/specchat/v1/sessions": {
                "post": _operation(
                    "Create a session",
                    {"201": JSON},
                    body=(JSON, "NewSession"),
                    errors={
                        "404": "this server has another model",
                        "409": "the client has another vocabulary",
                    },
                )
            },
            "/specchat/v1/sessions/{session}": {
                "parameters": [_path("session")],
                "delete": _operation("Forget a session", {"204": None}),
            },
            "/specchat/v1/sessions/{session}/generate": {
                "parameters": [_path("session")],
                "post": _operation(
                    "Continue the transcript",
                    {"200": NDJSON},
                    body=(JSON, "Generate"),
                    errors={**_GONE, "409": "the transcript differs", **_FAILING},
                ),
            },
            "/specchat/v1/sessions/{session}/drafts": {
                "parameters": [_path("session")],
                "post": _operation(
                    "Upload hints, one per line", {"200": JSON}, body=(NDJSON, "Hint"), errors=_GONE
                ),
            },
            "/v1/models": {"get": _operation("Models, in OpenAI's format", {"200": JSON})},
            "/v1/models/{name}": {
                "parameters": [_path("name")],
                "get": _operation(
                    "A model, in OpenAI's format",
                    {"200": JSON},
                    errors={"404": "this server has another model"},
                ),
            },
            "/v1/chat/completions": {
                "post": _operation(
                    "A chat completion; with `stream`, server-sent events",
                    {"200": (JSON, "text/event-stream")},
                    body=(JSON, "ChatCompletion"),
                    errors=_FAILING,
                )
            },
            "/v1/completions": {
                "post": _operation(
                    "A completion of text; with `stream`, server-sent events",
                    {"200": (JSON, "text/event-stream")},
                    body=(JSON, "TextCompletion"),
                    errors=_FAILING,
                )
            },
            "/v1/messages": {
                "post": _operation(
                    "A message, in Anthropic's format; with `stream`, server-sent events",
                    {"200": (JSON, "text/event-stream")},
                    body=(JSON, "Messages"),
                    errors=_FAILING,
                )
            },
            "/v1/messages/count_tokens": {
                "post": _operation(
                    "Tokens of a prompt, in Anthropic's format",
                    {"200": JSON},
                    body=(JSON, "CountTokens"),
                )
            },
            "/api/version": {"get": _operation("The version, as Ollama tells it", {"200": JSON})},
            "/api/tags": {"get": _operation("Models, in Ollama's format", {"200": JSON})},
            "/api/show": {
                "post": _operation(
                    "The model, in Ollama's format", {"200": JSON}, body=(JSON, "OllamaShow")
                )
            },
            **{
                f"/api/{name}": {
                    "post": _operation(
                        "An answer in Ollama's format, in lines unless `stream` is false",
                        {"200": (JSON, NDJSON)},
                        body=(JSON, schema),
                        errors=_FAILING,
                    )
                }
                for name, schema in (("chat", "OllamaChat"), ("generate", "OllamaGenerate"))
            },
            **{
                f"/v1/{name}": {"post": _operation("Not supported", {"404": JSON})}
                for name in ("embeddings", "responses")
            },
        },
    }


def _operation(
    summary: str,
    answers: dict[str, str | tuple[str, ...] | None],
    *,
    body: tuple[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> dict[str, Any]:
    responses: dict[str, Any] = {
        status: {"description": summary, **_content(kinds)} for status, kinds in answers.items()
    }
    for status, cause in {**_ERRORS, **(errors or {})}.items():
        responses[status] = {"description": cause, "content": {JSON: {}}}
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if body is not None:
        kind, schema = body
        content = {kind: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _content(kinds: str | tuple[str, ...] | None) -> dict[str, Any]:
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    return {"content": {kind: {} for kind in kinds}} if kinds else {}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
