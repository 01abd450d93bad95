"""A real llama-server answers alone, in its own words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from specchat.backends.examination import examine
from specchat.wire.address import parse_address
from support.llama_server import llama_server
from support.remote_chat import ask, remote_runtime

# The template of a model that thinks before it answers: the server has to see that it does.
THINKS = """{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor -%}
{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% if enable_thinking is defined and not enable_thinking %}
</think>

{% endif %}{% endif %}"""


@pytest.fixture(scope="module")
def url(tiny_model: Path) -> Iterator[str]:
    with llama_server(tiny_model) as address:
        yield address


async def test_its_words_and_its_own_count_of_tokens_come_through(url: str) -> None:
    async with remote_runtime(url, "lookup") as runtime:
        finished = await ask(runtime, max_tokens=12)
        again = await ask(runtime, max_tokens=12)
    assert finished.reason == "length"
    assert finished.text == again.text != ""  # the seed is the same
    assert finished.stats.completion_tokens == 12
    assert 20 < finished.stats.prompt_tokens < 60
    assert finished.stats.drafted == 0
    assert "answered alone: its server cannot verify drafts" in finished.notices[0]


async def test_a_stop_string_and_a_cancelled_answer_free_it(url: str) -> None:
    async with remote_runtime(url) as runtime:
        whole = await ask(runtime, max_tokens=12)
        word = whole.text.split()[2]
        stopped = await ask(runtime, max_tokens=12, stop=(word,))
        cancelled = await ask(runtime, max_tokens=400, on_chunk=lambda chunk: runtime.cancel())
        after = await ask(runtime, max_tokens=12)
    assert stopped.text == whole.text[: whole.text.index(word)]
    assert cancelled.reason == "cancelled"
    assert after.text == whole.text


async def test_reasoning_is_kept_apart_from_the_answer(tiny_model: Path, tmp_path: Path) -> None:
    template = tmp_path / "thinks.jinja"
    template.write_text(THINKS, encoding="utf-8")
    arguments = ("--jinja", "--chat-template-file", str(template), "--reasoning-format", "deepseek")
    with llama_server(tiny_model, *arguments) as url:
        async with remote_runtime(url) as runtime:
            finished = await ask(runtime, max_tokens=8)
    assert finished.text == ""
    assert len(finished.reasoning) > 10
    assert finished.stats.completion_tokens == 8


async def test_it_is_known_for_what_it_is(url: str) -> None:
    found = await examine(parse_address(url), None)
    listed = httpx.get(f"{url}/v1/models", trust_env=False).json()["data"][0]["id"]
    assert (found.kind, found.verifies, found.models) == ("openai", False, [listed])
