"""The verify protocol, spoken by hand to the real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from specengine.stream.transcript import Transcript
from support.smollm import UNENDING
from support.verify_server import VerifyServer, flat_costs

API = "/specchat/v1"
PROMPT = [1, 4093, 198, 19556, 28, 638, 359, 346, 47, 2]
ROOT = Transcript().hash.hex()


@contextmanager
def session(client: httpx.Client) -> Iterator[str]:
    response = client.post(f"{API}/sessions", json={"protocol": {"min": 1, "max": 3}})
    assert response.status_code == 201
    path = f"{API}/sessions/{response.json()['session']}"
    yield path
    assert client.delete(path).status_code == 204


def request(**changes: Any) -> dict[str, Any]:
    return {
        **{"base": 0, "base_hash": ROOT, "append": PROMPT, "seed": 7, "max_tokens": 8},
        **{"sampling": {"temperature": 0.9, "logit_bias": UNENDING}},
        **changes,
    }


def lines(client: httpx.Client, path: str, **changes: Any) -> list[dict[str, Any]]:
    with client.stream("POST", f"{path}/generate", json=request(**changes)) as response:
        assert response.read() is not None
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]


def tokens(answer: list[dict[str, Any]]) -> list[int]:
    return [token for line in answer for token in line.get("tokens", [])]


def test_an_answer_is_a_stream_of_lines(client: httpx.Client) -> None:
    with session(client) as path:
        first, *between, last = lines(client, path)
    assert (first["gen"], first["pos"], first["tokens"]) == (1, len(PROMPT), [])
    assert [line["pos"] for line in between] == list(range(len(PROMPT), len(PROMPT) + 8))
    assert all(len(line["margins"]) == len(line["tokens"]) == 1 for line in between)
    assert last["finish"] == "length"
    times = [line["t_us"] for line in (first, *between, last)]
    assert times == sorted(times)


def test_the_same_seed_gives_the_same_tokens_and_another_one_others(client: httpx.Client) -> None:
    with session(client) as path:
        first = tokens(lines(client, path))
        assert tokens(lines(client, path)) == first
        assert tokens(lines(client, path, seed=8)) != first


def test_the_next_turn_appends_to_what_is_there(client: httpx.Client) -> None:
    with session(client) as path:
        first = tokens(lines(client, path))
        text = Transcript([*PROMPT, *first])
        continued = tokens(
            lines(client, path, base=len(text), base_hash=text.hash.hex(), append=[], max_tokens=4)
        )
    with session(client) as path:
        assert tokens(lines(client, path, max_tokens=12)) == first + continued


def test_a_transcript_that_differs_is_refused_with_what_is_known(client: httpx.Client) -> None:
    with session(client) as path:
        n = len(PROMPT) + len(tokens(lines(client, path)))
        ahead = client.post(f"{path}/generate", json=request(base=n + 5, base_hash="0" * 32))
        other = client.post(f"{path}/generate", json=request(base=3, base_hash="f" * 32))
    assert ahead.status_code == other.status_code == 409
    assert ahead.json()["error"]["length"] == n


def test_hints_that_are_right_are_verified_and_accepted(
    server: VerifyServer, client: httpx.Client
) -> None:
    with session(client) as path:
        expected = tokens(lines(client, path, max_tokens=10))
    with flat_costs(server), session(client) as path, server.client() as other:
        found: list[dict[str, Any]] = []
        asked = request(max_tokens=10, patience_ms=20_000)
        with client.stream("POST", f"{path}/generate", json=asked) as stream:
            for line in stream.iter_lines():
                found.append(json.loads(line))
                if len(found) == 2:  # the prompt pass is done: now it waits for a hint
                    prefix = Transcript([*PROMPT, expected[0]])
                    wrong = {"gen": 1, "pos": 5, "prefix_hash": "0" * 32, "tokens": [5]}
                    right = {
                        **{"gen": 1, "pos": len(prefix), "prefix_hash": prefix.hash.hex()},
                        "tokens": expected[1:],
                    }
                    body = "\n".join(json.dumps(hint) for hint in (wrong, right)).encode()
                    headers = {"Content-Type": "application/x-ndjson"}
                    sent = other.post(f"{path}/drafts", content=body, headers=headers)
                    assert sent.status_code == 200
    assert tokens(found) == expected
    # At least every second token was a hint; how many enter a pass is the server's choice.
    assert sum(line.get("accepted", 0) for line in found) >= 4


def test_a_second_generate_ends_the_first(server: VerifyServer, client: httpx.Client) -> None:
    with session(client) as path, server.client() as other:
        asked = request(max_tokens=400)
        with client.stream("POST", f"{path}/generate", json=asked) as stream:
            first = stream.iter_lines()
            next(first)
            again = tokens(lines(other, path))
            assert json.loads(list(first)[-1])["finish"] == "cancelled"
    assert len(again) == 8


def test_a_client_that_vanishes_frees_its_place(server: VerifyServer) -> None:
    with server.client() as client, session(client) as path:
        with client.stream("POST", f"{path}/generate", json=request(max_tokens=400)) as stream:
            begun = stream.iter_lines()
            next(begun)
            next(begun)  # the first line comes before the answer has a place
            assert server.service.model.scheduler.load.running == 1
        server.wait_until_idle()


def test_a_silent_stream_pings(
    client: httpx.Client, server: VerifyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.service, "limits", replace(server.service.limits, ping_s=0.05))
    with session(client) as path:
        answer = lines(client, path, max_tokens=3, patience_ms=1500)
    pings = [line["ping"] for line in answer if "ping" in line]
    assert pings == list(range(1, len(pings) + 1))
    assert len(pings) >= 5


def test_a_deleted_session_is_gone_and_deleting_again_is_no_error(client: httpx.Client) -> None:
    with session(client) as path:
        assert client.delete(path).status_code == 204
        assert client.post(f"{path}/generate", json=request()).status_code == 410


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"append": [49_152]}, 400),
        ({"append": [-1]}, 400),
        ({"append": [1.5]}, 400),
        ({"append": "hello"}, 400),
        ({"append": []}, 400),
        ({"append": [1] * 512}, 413),
        ({"seed": -1}, 400),
        ({"seed": 2**64}, 400),
        ({"max_tokens": 0}, 400),
        ({"base": -1}, 400),
        ({"base_hash": "xyz"}, 400),
        ({"patience_ms": 1e9}, 400),
        ({"sampling": {"temperature": -1}}, 400),
        ({"sampling": {"temperatur": 1}}, 400),
        ({"sampling": {"logit_bias": {"60000": 1}}}, 400),
    ],
)
def test_what_is_wrong_is_refused(
    client: httpx.Client, change: dict[str, Any], status: int
) -> None:
    with session(client) as path:
        response = client.post(f"{path}/generate", json=request(**change))
    assert response.status_code == status
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"no json", 400),
        (b'{"gen":1,"pos":0,"prefix_hash":"' + b"0" * 32 + b'","tokens":[99999]}', 400),
        (
            b'{"gen":1,"pos":0,"prefix_hash":"' + b"0" * 32 + b'","tokens":[' + b"1," * 64 + b"1]}",
            413,
        ),
        (b"x" * 10_000, 413),
    ],
)
def test_hints_that_are_wrong_in_form_are_refused(
    client: httpx.Client, line: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    with session(client) as path:
        response = client.post(f"{path}/drafts", content=line, headers=headers)
    assert response.status_code == status


def test_sessions_agree_on_protocol_model_and_vocabulary(client: httpx.Client) -> None:
    def create(**wanted: Any) -> httpx.Response:
        return client.post(f"{API}/sessions", json={"protocol": {"min": 1, "max": 1}, **wanted})

    assert create(protocol={"min": 2, "max": 3}).status_code == 400
    assert create(model="another").status_code == 404
    assert create(vocab_fingerprint="another").status_code == 409
    info = client.get(f"{API}/info").json()["models"][0]
    right = create(model=info["name"], vocab_fingerprint=info["vocab_fingerprint"], new_key=1)
    assert right.status_code == 201
    client.delete(f"{API}/sessions/{right.json()['session']}")


YES_OR_NO = 'root ::= "yes" | "no" " no"'


def test_a_grammar_holds_from_where_it_starts(server: VerifyServer, client: httpx.Client) -> None:
    vocab = server.service.model.vocab

    def text(ids: list[int]) -> str:
        return b"".join(map(vocab.piece, ids)).decode()

    with session(client) as path:
        answer = lines(client, path, grammar=YES_OR_NO, max_tokens=20)
        assert text(tokens(answer)) in ("yes", "no no")
        assert answer[-1]["finish"] == "stop"
        # Taken up again after its first token, as after a cut.
        begun = vocab.tokenize("no")
        again = lines(
            client, path, append=PROMPT + begun, grammar=YES_OR_NO, grammar_start=len(PROMPT),
            max_tokens=20,
        )  # fmt: skip
        assert text(begun + tokens(again)) == "no no"


def test_a_grammar_that_cannot_be_used_is_refused_before_anything_is_said(
    client: httpx.Client,
) -> None:
    with session(client) as path:
        for changes, word in (
            ({"grammar": "root ::= ("}, "grammar"),
            ({"grammar": YES_OR_NO, "grammar_start": 99}, "beyond"),
        ):
            response = client.post(f"{path}/generate", json=request(**changes))
            assert response.status_code == 400
            assert response.json()["error"]["code"] == "grammar"
            assert word in response.json()["error"]["message"]
            assert "\n" not in response.json()["error"]["message"]


def test_log_probabilities_and_the_time_of_passes_are_told(client: httpx.Client) -> None:
    with session(client) as path:
        _, *between, _ = lines(client, path, logprobs=2)
        (line,) = between[:1]
        (told,) = line["logprobs"]
        assert told["token"] == line["tokens"][0]
        assert told["logprob"] <= 0
        (best, high), (second, low) = told["top"]
        assert best != second
        assert high - low == pytest.approx(line["margins"][0], abs=1e-3)
        assert all(line["pass_us"] > 0 for line in between)
        assert "logprobs" not in lines(client, path)[1]
