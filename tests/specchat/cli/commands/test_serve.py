"""`specchat serve` as a process: it starts, stops, is killed, and is started again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from support.command_line import specchat, started
from support.remote_chat import ask, remote_runtime
from support.serve_process import free_port, serving


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM there")
def test_sigterm_ends_streams_with_a_word_and_the_process_with_0(tmp_path: Path) -> None:
    port = free_port()
    api = f"http://127.0.0.1:{port}/specchat/v1/sessions"
    with serving(tmp_path, port) as process, httpx.Client(trust_env=False, timeout=30) as client:
        session = client.post(api, json={"protocol": {"min": 1, "max": 1}}).json()["session"]
        body = {"base": 0, "base_hash": "0" * 32, "append": [1, 2, 3], "seed": 1}
        with client.stream("POST", f"{api}/{session}/generate", json=body) as stream:
            lines = stream.iter_lines()
            next(lines)
            next(lines)
            process.send_signal(signal.SIGTERM)
            last = list(lines)[-1]
        assert json.loads(last)["finish"] == "shutdown"
        assert process.wait(20) == 0
        assert process.stdout is not None
        output = process.stdout.read().decode()
    assert "Traceback" not in output
    assert session not in output


async def test_an_answer_survives_kill_9_of_its_server(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with serving(tmp_path, port) as first:
        async with remote_runtime(url) as runtime:
            whole = await ask(runtime)
            again: list[subprocess.Popen[bytes]] = []
            others = []

            def kill_and_start_again(chunk: object) -> None:
                if not again:
                    first.kill()
                    first.wait()
                    other = serving(tmp_path, port)
                    others.append(other)
                    again.append(other.__enter__())

            finished = await ask(runtime, on_chunk=kill_and_start_again)
        others[0].__exit__(None, None, None)
    assert finished.tokens == whole.tokens
    assert any("taken up again" in notice for notice in finished.notices)


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_a_client_that_is_killed_frees_its_place(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with serving(tmp_path, port), httpx.Client(base_url=url, trust_env=False) as client:
        with started(tmp_path, "ask", "Tell a story.", "--target", url) as (_, output):
            assert output.read(1)
        deadline = time.monotonic() + 20
        while client.get("/specchat/v1/info").json()["load"]["running"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_cannot_be_served_is_said_in_one_line(tmp_path: Path) -> None:
    for arguments, word in (
        (["--host", "0.0.0.0"], b"can be reached from other computers"),
        (["--tls-cert", __file__], b"must be given together"),
        (["--target", "no-such-model"], b"no-such-model"),
    ):
        done = specchat(tmp_path, "serve", *arguments)
        assert done.returncode in (1, 2)
        assert word in done.stderr
        assert b"Traceback" not in done.stderr


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = specchat(tmp_path, "serve", "--profile", "tiny", "--ctx", "256", "--port",
                        str(taken.getsockname()[1]))  # fmt: skip
    assert done.returncode == 1
    assert b"cannot listen on http://127.0.0.1" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM there")
def test_sigterm_ends_a_server_whose_model_hangs(tmp_path: Path) -> None:
    port = free_port()
    hanging = tmp_path / "hanging"
    hangs = "import pathlib, time; from specengine.serve.scheduler import Scheduler as S; "
    hang = f"(pathlib.Path({str(hanging)!r}).touch(), time.sleep(1000))"
    hangs += f"S._admit = lambda self: self._waiting and {hang}; "
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    with (
        serving(tmp_path, port, before=hangs) as process,
        httpx.Client(trust_env=False, timeout=30) as client,
    ):
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        with client.stream("POST", url, json=body) as stream:
            lines = stream.iter_lines()  # kept: without it httpx hangs up
            next(lines)
            deadline = time.monotonic() + 60
            while not hanging.exists():
                assert time.monotonic() < deadline, "the model does not hang"
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 1
        assert process.stdout is not None
        output = process.stdout.read().decode()
    assert "the model does not stop: ending the process without it" in output
    assert "Traceback" not in output


def test_a_server_takes_schemas_of_its_clients(tmp_path: Path) -> None:
    port = free_port()
    flags = ("--target", f"http://127.0.0.1:{port}", "--json-schema", '{"type": "boolean"}')
    with serving(tmp_path, port):
        asked = specchat(tmp_path, "ask", "Is it?", *flags)
    assert asked.stdout.strip() in (b"true", b"false"), asked.stderr
