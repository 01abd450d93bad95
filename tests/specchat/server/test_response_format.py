"""Answers of `/v1/chat/completions` that have to be JSON, or follow a grammar."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

ASK = {"messages": [{"role": "user", "content": "Bob is seven."}], "max_tokens": 80, "seed": 3}
PERSON = {
    "type": "object",
    "properties": {"name": {"enum": ["Bob", "Eve"]}, "age": {"type": "integer", "maximum": 9}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
NAMED = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": NAMED},
        {"response_format": {"type": "json_object", "schema": PERSON}},
        {"json_schema": PERSON},
        {"grammar": 'root ::= "{\\"name\\": \\"Eve\\", \\"age\\": " [0-9] "}"'},
    ],
    ids=["json_schema", "json_object with a schema", "schema alone", "GBNF"],
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_answer_has_the_form(
    form: dict[str, Any], streamed: bool, client: httpx.Client
) -> None:
    response = client.post("/v1/chat/completions", json={**ASK, **form, "stream": streamed})
    if streamed:
        lines = [line[6:] for line in response.text.splitlines() if line and line[6:] != "[DONE]"]
        choices = [json.loads(line)["choices"][0] for line in lines]
        text = "".join(choice["delta"].get("content", "") for choice in choices)
        reason = choices[-1]["finish_reason"]
    else:
        (choice,) = response.json()["choices"]
        text, reason = choice["message"]["content"], choice["finish_reason"]
    person = json.loads(text)
    assert reason == "stop"
    assert person["name"] in ("Bob", "Eve")
    assert -100 < person["age"] <= 9


def test_any_json_object_is_one(client: httpx.Client) -> None:
    short = {**ASK, "max_tokens": 3, "response_format": {"type": "json_object"}}
    (choice,) = client.post("/v1/chat/completions", json=short).json()["choices"]
    assert choice["message"]["content"].startswith("{")


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"response_format": {"type": "json_schema"}}, "json_schema.schema is missing"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"json_schema": {"items": {"not": {}}}}, 'at #/items has "not"'),
        ({"grammar": "root ::= ("}, "the grammar cannot be used"),
        ({"grammar": "root ::= [a]", "response_format": NAMED}, "exclude each other"),
    ],
)
def test_a_form_that_cannot_be_had_is_refused_before_anything_is_said(
    form: dict[str, Any], reason: str, client: httpx.Client
) -> None:
    response = client.post("/v1/chat/completions", json={**ASK, **form})
    assert response.status_code == 400
    assert reason in response.json()["error"]["message"]
