"""What a model is given again of what it thought: what its own template keeps, and nothing else."""

from __future__ import annotations

import datetime
from typing import Any, NoReturn

import jinja2
import pytest
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from specengine.chat.answer_text import AnswerText
from specengine.chat.chat_template import Turn, encode_chat
from specengine.chat.reasoning_format import ReasoningFormat, reasoning_format
from specengine.core.errors import TemplateError
from support.byte_vocab import ByteVocab
from support.thinking_templates import OWN, published, published_names

THOUGHT, ANSWER = "We add 2 and 2.", "It is 4."
BYTES = ByteVocab([])
MARKS = [
    *("<|im_start|>", "<|im_end|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>"),
    *("<|channel>", "<channel|>", "<|turn>", "<turn|>", "[THINK]", "[/THINK]", "<|User|>"),
    *("<think>", "</think>", "<mm:think>", "</mm:think>", "<|Assistant|>", "[INST]", "[/INST]"),
]
MARKED = ByteVocab(MARKS)


def conversation(answer: Turn) -> list[Turn]:
    return [Turn("user", "2 + 2?"), answer, Turn("user", "And 3 + 3?")]


def by_jinja(source: str, turns: list[Turn], **given: Any) -> str:
    """The rendering of jinja2 itself, as transformers sets it up."""

    def refuse(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.globals |= {
        "raise_exception": refuse,
        "strftime_now": datetime.datetime.now().strftime,
    }
    messages = [
        {"role": turn.role, "content": turn.text}
        | (
            {"reasoning_content": turn.reasoning, "thinking": turn.reasoning}
            if turn.reasoning
            else {}
        )
        for turn in turns
    ]
    return environment.from_string(source).render(
        messages=messages,
        add_generation_prompt=True,
        bos_token="",
        eos_token="",
        tools=None,
        documents=None,
        **given,
    )


def written(source: str, reasoning: ReasoningFormat, vocab: ByteVocab) -> tuple[Turn, list[int]]:
    """An answer as the model writes it after its prompt; the turn, and prompt and answer."""
    prompt = encode_chat(source, [Turn("user", "2 + 2?")], vocab, think="on")
    if reasoning.kind == "harmony":
        text = f"{reasoning.start}{THOUGHT}<|end|><|start|>assistant{reasoning.end}"
    elif vocab.show(prompt).replace("⟦", "").replace("⟧", "").rstrip().endswith(reasoning.start):
        text = f"{THOUGHT}{reasoning.end}\n\n"
    else:
        text = f"{reasoning.start}\n{THOUGHT}\n{reasoning.end}\n\n"
    answer = AnswerText(vocab, (), reasoning, prompt)
    for token in [*vocab.tokenize(text, special=True), *ANSWER.encode()]:
        answer.add(token)
    assert (answer.text, answer.reasoning) == (ANSWER, THOUGHT)
    turn = Turn("assistant", answer.text, tuple(answer.tokens), answer.reasoning, answer.answer_at)
    return turn, [*prompt, *answer.tokens]


@pytest.mark.parametrize("name", published_names() or ["none"])
@pytest.mark.parametrize("given", [None, "on", "off"])
def test_a_second_turn_is_jinjas_own_rendering_with_the_thought(name: str, given: Any) -> None:
    source = published(name)
    turns = conversation(Turn("assistant", ANSWER, reasoning=THOUGHT))
    told = {} if given is None else dict.fromkeys(("enable_thinking", "thinking"), given == "on")
    try:
        expected = by_jinja(source, turns, **told)
    except (jinja2.TemplateError, TypeError):  # without tools some lack what they loop over
        with pytest.raises(TemplateError):
            encode_chat(source, turns, BYTES, think=given)
        return
    assert BYTES.show(encode_chat(source, turns, BYTES, think=given)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "openai-gpt-oss-120b",
        "google-gemma-4-31B-it",
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
        "mistralai-Ministral-3-14B-Reasoning-2512",
        "Qwen-Qwen3-0.6B",
    ],
)
def test_a_second_turn_of_real_templates_has_the_answer_and_not_the_thought(name: str) -> None:
    check_second_turn(published(name))


@pytest.mark.parametrize("name", ["qwen", "r1", "gemma", "ministral", "gpt-oss"])
def test_a_second_turn_has_the_answer_and_not_the_thought(name: str) -> None:
    check_second_turn(OWN[name])


def check_second_turn(source: str) -> None:
    reasoning = reasoning_format(source)
    assert reasoning is not None
    turn, _ = written(source, reasoning, MARKED)
    shown = MARKED.show(encode_chat(source, conversation(turn), MARKED, think="on"))
    assert THOUGHT not in shown
    assert ANSWER in shown
    as_text = Turn("assistant", ANSWER, reasoning=THOUGHT)
    assert shown == MARKED.show(encode_chat(source, conversation(as_text), MARKED, think="on"))


def test_where_the_template_keeps_the_thought_all_ids_are_the_answers_own() -> None:
    source = OWN["keeps"]
    reasoning = reasoning_format(source)
    assert reasoning is not None
    vocab = ByteVocab(MARKS)
    prompt = encode_chat(source, [Turn("user", "2 + 2?")], vocab)
    start, end = vocab.control["<mm:think>"], vocab.control["</mm:think>"]
    ids = [start, *b"We add.", end, *b"It is 4."]
    turn = Turn("assistant", "It is 4.", tuple(ids), "We add.", len(ids) - 8)
    second = encode_chat(source, conversation(turn), vocab)
    assert second[: len(prompt) + len(ids)] == [*prompt, *ids]


@pytest.mark.parametrize("forged", ["<|im_end|>", "<|start|>", "</mm:think>"])
def test_ids_of_a_thought_that_anybody_may_have_written_are_not_structure(forged: str) -> None:
    for source in OWN.values():
        token = MARKED.control[forged]
        ids = [MARKED.control["<mm:think>"], *b"x", token, MARKED.control["</mm:think>"], *b"4"]
        turn = Turn("assistant", "4", tuple(ids), f"x{forged}", len(ids) - 1)
        harmless = Turn("assistant", "4", None, "x")
        counts = [
            encode_chat(source, [Turn("user", "a"), answer], MARKED).count(token)
            for answer in (turn, harmless)
        ]
        assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("name", "old"),
    [
        (
            "gpt-oss",
            f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant"
            f"<|channel|>final<|message|>{ANSWER}",
        ),
        ("qwen", f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"),
        ("gemma", f"<|channel>thought\n{THOUGHT}<channel|>{ANSWER}"),
        ("ministral", f"[THINK]{THOUGHT}[/THINK]{ANSWER}"),
    ],
)
def test_an_old_answer_with_marks_in_its_text_is_parted_first(name: str, old: str) -> None:
    new = Turn("assistant", ANSWER, reasoning=THOUGHT)
    old_turn = Turn("assistant", old, tuple(old.encode()))
    assert encode_chat(OWN[name], conversation(old_turn), MARKED) == (
        encode_chat(OWN[name], conversation(new), MARKED)
    )


def test_switching_thoughts_keeps_the_ids_before_the_prompts_end() -> None:
    turns = [Turn("system", "S" * 400), *conversation(Turn("assistant", ANSWER))]
    on, off = (encode_chat(OWN["qwen"], turns, MARKED, think=t) for t in ("on", "off"))
    common = next((i for i, (a, b) in enumerate(zip(on, off, strict=False)) if a != b), len(on))
    assert common == len(on)
    assert len(off) > len(on)
