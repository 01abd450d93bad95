"""Who gets in, and how much each may have."""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from specchat.errors import SpecchatError
from specchat.server.app import make_app
from specchat.server.keys import Keys, load_keys
from specchat.server.limits import Limits
from specchat.server.listen import JsonLines, Listen, check_exposure
from support.verify_server import VerifyServer, running_server

KEY, OTHER = "k" * 20 + "1", "k" * 20 + "2"
SESSIONS = "/specchat/v1/sessions"
NEW = {"protocol": {"min": 1, "max": 1}}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_keys_limits_and_logs(tiny_model: Path, caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits(sessions_per_key=2)
    caplog.set_level(logging.INFO, "specchat.server")
    with running_server(tiny_model, keys=(KEY, OTHER), limits=limits) as server:
        with server.client() as client:
            assert client.get("/").status_code == client.get("/health").status_code == 200
            for path in ("/specchat/v1/info", "/metrics", "/v1/models", "/openapi.json"):
                assert client.get(path).status_code == 401
            assert client.get("/v1/models", headers=bearer(KEY + "x")).status_code == 401
            assert client.get("/v1/models", headers=bearer(OTHER)).status_code == 200
            assert client.get("/v1/models", headers={"x-api-key": OTHER}).status_code == 200
            assert client.get("/v1/models", headers={"x-api-key": "x"}).status_code == 401
            own = client.post(SESSIONS, json=NEW, headers=bearer(KEY)).json()["session"]
            assert client.post(SESSIONS, json=NEW, headers=bearer(KEY)).status_code == 201
            for session in server.service.sessions._all.values():
                session.connections += 1
            third = client.post(SESSIONS, json=NEW, headers=bearer(KEY))
            for session in server.service.sessions._all.values():
                session.connections -= 1
            assert (third.status_code, third.headers["retry-after"]) == (429, "10")
            assert client.post(SESSIONS, json=NEW, headers=bearer(OTHER)).status_code == 201
            body = {"base": 0, "base_hash": "0" * 32, "append": [1], "seed": 1, "max_tokens": 1}
            path = f"{SESSIONS}/{own}/generate"
            assert client.post(path, json=body, headers=bearer(OTHER)).status_code == 410
            assert client.post(path, json=body, headers=bearer(KEY)).status_code == 200
        _unused_sessions_end(server)
    logged = "\n".join(JsonLines().format(record) for record in caplog.records)
    assert '"route": "/specchat/v1/sessions/{session}/generate", "status": 200' in logged
    assert KEY not in logged
    assert own not in logged


def _unused_sessions_end(server: VerifyServer) -> None:
    sessions = server.service.sessions
    sessions.ttl_s = 0.05
    time.sleep(0.1)
    with server.client(headers=bearer(KEY)) as client:
        assert client.post(SESSIONS, json=NEW).status_code == 201
    assert len(sessions) == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [("attacker.example", 403), ("localhost:1", 200), ("[::1]:80", 200), ("[::2]", 403)],
)
def test_without_keys_only_this_computer_is_served(
    client: httpx.Client, host: str, status: int
) -> None:
    assert client.get("/v1/models", headers={"Host": host}).status_code == status


def test_a_server_that_strangers_could_use_is_not_started() -> None:
    check_exposure(Listen("127.0.0.1", 1), has_keys=False)
    with pytest.raises(SpecchatError, match="can be reached from other computers"):
        check_exposure(Listen("0.0.0.0", 1), has_keys=False)


def test_a_web_page_cannot_send_what_needs_no_preflight(client: httpx.Client) -> None:
    response = client.post(SESSIONS, content=b"{}", headers={"Content-Type": "text/plain"})
    assert response.status_code == 415


async def test_web_pages_are_answered_where_they_were_let_in(server: VerifyServer) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key"}
    for origins, allowed in (((), None), (("http://a",), "http://a")):
        transport = httpx.ASGITransport(make_app(server.service, origins))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            preflight = await client.options(
                "/v1/chat/completions", headers={**asks, "Origin": "http://a"}
            )
            listed = await client.get("/v1/models", headers={"Origin": "http://a"})
            other = await client.get("/v1/models", headers={"Origin": "http://b"})
        assert preflight.status_code == (200 if allowed else 405)
        assert listed.headers.get("access-control-allow-origin") == allowed
        assert other.headers.get("access-control-allow-origin") is None


def test_a_path_that_is_unknown_is_named_in_the_shape_of_its_protocol(
    client: httpx.Client,
) -> None:
    said = "there is no {} here: GET /openapi.json tells what there is"
    told = {path: client.post(path).json() for path in ("/v1/audio", "/api/pull")}
    batches = client.get("/v1/messages/batches").json()
    assert told["/v1/audio"]["error"]["message"] == said.format("/v1/audio")
    assert told["/api/pull"] == {"error": said.format("/api/pull")}
    assert batches["type"] == "error"
    assert batches["error"]["type"] == "not_found_error"
    assert client.put("/v1/models").status_code == 405
    assert len(client.get("/" + "x" * 5000).json()["error"]["message"]) < 200


def test_too_many_waiting_answers_are_turned_away(
    server: VerifyServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.service, "limits", replace(server.service.limits, waiting=0))
    body = {"messages": [{"role": "user", "content": "hi"}]}
    response = client.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.headers["retry-after"]) == (429, "2")


def test_keys_come_from_the_environment_and_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# mine\n{KEY}\n\n")
    file.chmod(0o600)
    keys = load_keys({"SPECCHAT_SERVER_KEY": OTHER}, file)
    owners = [keys.owner({"authorization": f"Bearer {key}"}) for key in (KEY, OTHER)]
    assert owners[0] != owners[1]
    file.chmod(0o644)
    with pytest.raises(SpecchatError, match="chmod 600"):
        load_keys({}, file)
    with pytest.raises(SpecchatError, match="at least 16"):
        Keys(["short"])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/chat/completions", "application/json"),
        (f"{SESSIONS}/{{session}}/drafts", "application/x-ndjson"),
    ],
)
def test_a_client_that_dies_amid_its_request_is_not_waited_for_forever(
    server: VerifyServer,
    client: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    kind: str,
) -> None:
    limits = replace(server.service.limits, silence_s=0.05, ttl_s=0.05)
    monkeypatch.setattr(server.service, "limits", limits)
    address = urlsplit(server.url)
    path = path.format(session=client.post(SESSIONS, json=NEW).json()["session"])
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    place = (address.hostname, address.port or 0)
    with socket.create_connection(place, timeout=20) as connection:
        connection.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
