"""Whatever the OpenAPI description allows is answered as it says, and what it forbids is refused.

SPECCHAT_EXAMPLES=200 tries so many requests for each operation, in place of a few.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from specchat.server.openapi import description
from support.verify_server import VerifyServer, running_server

schemathesis: Any = pytest.importorskip("schemathesis")
conformance: Any = pytest.importorskip("schemathesis.specs.openapi.checks")

API = "/specchat/v1"
N = int(os.environ.get("SPECCHAT_EXAMPLES", "6"))
CHECKS = (
    schemathesis.checks.not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
)


def as_line(ctx: Any, value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


schemathesis.serializer("application/x-ndjson")(as_line)
schema: Any = schemathesis.openapi.from_dict(description())
schema.config.phases.coverage.enabled = False  # hundreds of requests


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[VerifyServer]:
    with running_server(tiny_model, n_ctx=96) as running:
        yield running


def requests_by_the_description(server: VerifyServer, case: Any) -> None:
    with server.client() as client:
        new = client.post(f"{API}/sessions", json={"protocol": {"min": 1, "max": 1}}).json()
        if "session" in (case.path_parameters or {}):
            case.path_parameters["session"] = new["session"]
        if isinstance(case.body, dict) and "messages" in case.body:
            case.body["max_tokens"] = 1
        try:
            response = case.call(base_url=server.url, timeout=60)
            case.validate_response(response, checks=CHECKS)
        finally:
            for session in list(server.service.sessions._all.values()):
                server.service.sessions.delete(session)


test_requests_by_the_description = pytest.mark.slow(
    schema.parametrize()(
        settings(
            max_examples=N,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )(requests_by_the_description)
    )
)
