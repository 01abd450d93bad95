import json
import re
from pathlib import Path

import httpx

from specchat.server.app import make_app
from specchat.server.openapi import description
from support.verify_server import VerifyServer

WRITTEN = Path(__file__).parents[3] / "docs" / "openapi.json"


def test_the_written_description_is_the_served_one(client: httpx.Client) -> None:
    served = client.get("/openapi.json").json()
    written = json.loads(WRITTEN.read_text(encoding="utf-8"))
    written["info"]["version"] = served["info"]["version"]
    assert served == written


def test_every_route_is_described(server: VerifyServer) -> None:
    routes = {
        (route.path_format, method.lower())  # type: ignore[attr-defined]
        for route in make_app(server.service).routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    described = {
        (path, method)
        for path, item in description()["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert routes - described == {("/openapi.json", "get")}
    assert described <= routes


def test_every_body_that_is_named_is_described() -> None:
    text = json.dumps(description())
    named = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert named <= set(description()["components"]["schemas"])


def test_metrics_tell_what_happened(client: httpx.Client) -> None:
    client.get("/v1/models")
    text = client.get("/metrics").text
    assert 'specchat_requests_total{route="/v1/models",status="200"}' in text
    assert "# TYPE specchat_answers_running gauge\nspecchat_answers_running 0\n" in text
