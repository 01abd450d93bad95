"""`specchat connect` as a person types it."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path

import pytest

from remote.delay_line import DelayProxy, Line
from specchat.backends.examination import examine
from specchat.wire.address import parse_address
from support.buffering_proxies import BuffersDown, BuffersUp
from support.chat_stand_in import chat_stand_in
from support.command_line import specchat
from support.verify_server import running_server


def test_a_verify_server(tiny_model: Path, tmp_path: Path) -> None:
    with running_server(tiny_model) as server, DelayProxy(server.url) as proxy:
        proxy.line = Line(round_trip_s=0.06)
        done = specchat(tmp_path, "connect", proxy.url, "--draft", "smollm2-135m", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["kind"], found["verifies"], found["n_ctx"]) == ("specchat", True, 512)
        assert found["round_trip_ms"] >= 60
        assert (found["buffers_down"], found["buffers_up"]) == (False, False)
        assert found["drafts_reach_it"] == "ids"
        assert found["expected_gain"] is None  # nobody knows yet what a draft token costs here
        profile = tomllib.loads(found["profile"])["profiles"]["remote"]
        assert (profile["target"], profile["draft"]) == (proxy.url, "smollm2-135m")
        assert len(server.service.sessions) == 0
        printed = specchat(tmp_path, "connect", server.url).stdout.decode()
    assert "drafts, exactly, with any sampling; context of 512 tokens" in printed
    assert printed.count("arrives at once") == 2
    assert "times as fast if the answer repeats earlier text" in printed


def test_a_way_that_holds_streams_back_is_noticed(tiny_model: Path) -> None:
    with running_server(tiny_model) as server:
        with BuffersDown(server.url) as proxy:
            down = asyncio.run(examine(parse_address(proxy.url), None))
        with BuffersUp(server.url) as proxy:
            up = asyncio.run(examine(parse_address(proxy.url), None))
    assert (down.buffers_down, down.buffers_up) == (True, None)
    assert (up.buffers_down, up.buffers_up) == (False, True)


def test_a_server_that_verifies_nothing(tmp_path: Path) -> None:
    with chat_stand_in(models=("big", "small")) as stand_in:
        done = specchat(tmp_path, "connect", f"{stand_in.url}/v1#small", "--draft", "smollm2-135m")
    assert done.returncode == 1
    printed = done.stdout.decode()
    assert "unknown, speaks the OpenAI protocol" in printed
    assert "nothing: its own answers are streamed" in printed
    assert "smollm2-135m: cannot draft for this server" in printed
    assert f'target = "{stand_in.url}#small"' in printed
    assert "draft = " not in printed


@pytest.mark.parametrize(
    ("env", "cause"),
    [({}, "http://127.0.0.1:9: no connection"), ({"SPECCHAT_OFFLINE": "1"}, "offline")],
    ids=["nobody there", "offline"],
)
def test_where_nothing_is_connected_to_it_is_said(
    tmp_path: Path, env: dict[str, str], cause: str
) -> None:
    done = specchat(tmp_path, "connect", "http://127.0.0.1:9", env=env)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert cause in line
