"""The program `llm`, where it is installed (the dependency group `clients`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from support.verify_server import VerifyServer

pytest.importorskip("llm")


def test_a_prompt_and_what_follows_it(
    server: VerifyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    models = import_module("llm.default_plugins.openai_models")
    model = models.Chat("tiny", model_name="tiny", api_base=f"{server.url}/v1")
    chat = model.conversation()
    first = chat.prompt("Count to five.", system="Be brief.", max_tokens=12, key="none")
    assert first.text()
    second = chat.prompt("And on.", max_tokens=12, key="none", stream=False)
    assert second.text()
    assert second.usage().input > first.usage().input
