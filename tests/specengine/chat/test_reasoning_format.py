"""The marks of a thought: of small templates of every kind, and of published ones by family."""

import pytest

from specengine.chat.reasoning_format import ReasoningFormat, reasoning_format, variables
from support.thinking_templates import OWN, published, published_names

THINK = ("<think>", "</think>")

# Of the published templates those whose models think: marks, switch, levels.
FAMILIES = {
    "Apertus-8B-Instruct": ("<|inner_prefix|>", "<|inner_suffix|>", "switch"),
    "Bielik-11B-v3.0-Instruct": (*THINK, "switch"),
    "Cohere2MoE": ("<|START_THINKING|>", "<|END_THINKING|>", ""),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": (
        *("<|START_THINKING|>", "<|END_THINKING|>"),
        "switch",
    ),
    "GLM-4.6": (*THINK, "switch"),
    "GLM-4.7-Flash": (*THINK, "switch"),
    "HuggingFaceTB-SmolLM3-3B": (*THINK, "switch"),
    "Qwen-QwQ-32B": (*THINK, "switch"),
    "Qwen-Qwen3-0.6B": (*THINK, "switch"),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": (*THINK, ""),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": (*THINK, "switch"),
    "deepseek-ai-DeepSeek-V3.1": (*THINK, "switch"),
    "deepseek-ai-DeepSeek-V3.2": (*THINK, "switch"),
    "google-gemma-4-31B-it": ("<|channel>thought", "<channel|>", "switch"),
    "ibm-granite-granite-3.3-2B-Instruct": (*THINK, "switch"),
    "llama-cpp-deepseek-r1": (*THINK, ""),
    "llama-cpp-rwkv-world": (*THINK, "switch"),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("[THINK]", "[/THINK]", ""),
    "openai-gpt-oss-120b": (
        *("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
        "levels",
    ),
    "stepfun-ai-Step-3.5-Flash": (*THINK, ""),
}


def described(reasoning: ReasoningFormat | None) -> tuple[str, str, str] | None:
    if reasoning is None:
        return None
    can = "switch" * reasoning.has_switch + "levels" * reasoning.has_levels
    return reasoning.start, reasoning.end, can


@pytest.mark.parametrize("name", published_names() or ["none"])
def test_each_published_template_tells_its_marks_or_that_it_knows_no_thoughts(name: str) -> None:
    assert described(reasoning_format(published(name))) == FAMILIES.get(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen", (*THINK, "switch")),
        ("r1", (*THINK, "")),
        ("gemma", ("<|channel>thought", "<channel|>", "switch")),
        ("ministral", ("[THINK]", "[/THINK]", "")),
        (
            "gpt-oss",
            ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "levels"),
        ),
        ("keeps", ("<mm:think>", "</mm:think>", "")),
    ],
)
def test_each_kind_of_template_tells_its_marks(name: str, expected: tuple[str, str, str]) -> None:
    assert described(reasoning_format(OWN[name])) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content }}",
        "{% if %}",
        "{{ raise_exception('no') }} reasoning_content",
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}",
    ],
)
def test_a_template_that_knows_no_thoughts_or_fails_has_no_format(template: str) -> None:
    assert reasoning_format(template) is None


def test_a_thought_that_stands_where_the_answer_does_has_no_marks() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>"
        "{{ m.reasoning_content or m.content }}<|end|>{% endfor %}"
    )
    assert reasoning_format(template) is None


def test_what_a_template_is_told_is_nothing_by_default() -> None:
    assert variables(None) == {}
    assert variables("off") == {"enable_thinking": False, "thinking": False}
    assert variables("high") == {
        "enable_thinking": True,
        "thinking": True,
        "reasoning_effort": "high",
    }
