"""Small templates that treat thoughts as those of the families do, and the published ones.

The published ones are no part of the project: tests with them are skipped where they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

QWEN_LIKE = """\
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and loop.index0 > ns.last and message.reasoning_content %}
        {{- '<think>\\n' + message.reasoning_content.strip() + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content.split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

R1_LIKE = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{ '<|User|>' + message.content }}{% endif %}
    {%- if message.role == 'assistant' %}
        {%- set content = message.content %}
        {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
        {{- '<|Assistant|>' + content + '<|eos|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|Assistant|><think>\\n' }}{% endif %}
"""

GEMMA_LIKE = """\
{{- bos_token }}
{%- if enable_thinking is defined and enable_thinking %}
    {{- '<|turn>system\\n<|think|>\\n<turn|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}
    {%- if message.role == 'assistant' and message.get('reasoning_content') and loop.last %}
        {{- '<|channel>thought\\n' + message.reasoning_content + '\\n<channel|>' }}
    {%- endif %}
    {{- message.content | trim + '<turn|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|turn>model\\n' }}
    {%- if not enable_thinking | default(false) %}{{ '<|channel>thought\\n<channel|>' }}{% endif %}
{%- endif %}
"""

MINISTRAL_LIKE = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{ '[INST]' + message.content + '[/INST]' }}{% endif %}
    {%- if message.role == 'assistant' %}
        {%- if message.content is string %}{{ message.content }}
        {%- else %}
            {%- for block in message.content %}
                {%- if block.type == 'thinking' %}{{ '[THINK]' + block.thinking + '[/THINK]' }}
                {%- else %}{{ block.text }}{% endif %}
            {%- endfor %}
        {%- endif %}
        {{- eos_token }}
    {%- endif %}
{%- endfor %}
"""

GPT_OSS_LIKE = """\
{{- '<|start|>system<|message|>Reasoning: ' + reasoning_effort | default('medium') + '<|end|>' }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- if '<|channel|>analysis<|message|>' in message.content %}
            {{- raise_exception('a message with <|channel|> tags in its content') }}
        {%- endif %}
        {%- if loop.last and not add_generation_prompt and message.thinking %}
            {{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}
        {%- endif %}
        {{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}
    {%- else %}
        {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}
"""

KEEPS_THOUGHTS = """\
{%- for message in messages %}
    {{- '<|' + message.role + '|>' }}
    {%- if message.reasoning_content %}
        {{- '<mm:think>' + message.reasoning_content + '</mm:think>' }}
    {%- endif %}
    {{- message.content + '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}
"""

OWN = {
    "qwen": QWEN_LIKE,
    "r1": R1_LIKE,
    "gemma": GEMMA_LIKE,
    "ministral": MINISTRAL_LIKE,
    "gpt-oss": GPT_OSS_LIKE,
    "keeps": KEEPS_THOUGHTS,
}

_FOLDERS = [folder / "shared/templates" for folder in Path(__file__).resolve().parents]


def published(name: str) -> str:
    """The published template of that name; skips the test where it is missing."""
    for path in _published():
        if path.stem == name:
            return path.read_text(encoding="utf-8")
    pytest.skip("the published templates are not here")


def published_names() -> list[str]:
    return [path.stem for path in _published()]


def _published() -> Iterator[Path]:
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    if folder is not None:
        yield from sorted(folder.glob("*.jinja"))
