"""A thought and an answer part at the same place, however the tokens cut their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specengine.chat.reasoning import Splitter, make_splitter
from specengine.chat.reasoning_format import ReasoningFormat, reasoning_format
from specengine.chat.template_sandbox import compiled
from specengine.core.errors import TemplateError
from support.byte_vocab import ByteVocab
from support.fakes import FakeVocab
from support.thinking_templates import OWN, published, published_names

THOUGHT, ANSWER = "Add – 🙂 2 < 3.\n\nSo 4", "4, or </think> <think>no</think>\n\n[THINK]ế"
TAGS = ReasoningFormat("tags", "<think>", "</think>")
HARMONY = ReasoningFormat(
    "harmony", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
)


def split(splitter: Splitter, tokens: list[int]) -> tuple[str, str]:
    parts = [*map(splitter.feed, tokens), splitter.finish()]
    thought, answer = (b"".join(part) for part in zip(*parts, strict=True))
    return thought.decode(), answer.decode()


def written(reasoning: ReasoningFormat, prompt: str = "") -> str:
    """What a model writes after `prompt`, thought and answer."""
    if reasoning.kind == "harmony":
        start = "<|channel|>analysis<|message|>"
        return f"{start}{THOUGHT}<|end|><|start|>assistant{reasoning.end}{ANSWER}"
    start = "" if prompt.rstrip().endswith(reasoning.start) else f"{reasoning.start}\n"
    return f"{start}{THOUGHT}\n{reasoning.end}\n\n{ANSWER}"


def cuts(text: str) -> list[tuple[bytes, bytes]]:
    raw = text.encode()
    return [(raw[:i], raw[i:]) for i in range(len(raw) + 1)]


def split_of(reasoning: ReasoningFormat | None, prompt: str, *pieces: bytes) -> tuple[str, str]:
    """Where marks are plain text: the prompt is one token, each piece another."""
    by_id = dict(enumerate([prompt.encode(), *pieces]))
    vocab = FakeVocab(len(by_id), pieces=by_id)
    return split(make_splitter(reasoning, vocab, [0]), list(by_id)[1:])


def think_on(source: str) -> str:
    """The prompt with thinking on, where the template answers without tools."""
    try:
        return compiled(source).render(
            messages=[{"role": "user", "content": "Hi"}],
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
            enable_thinking=True,
            thinking=True,
            tools=None,
            documents=None,
        )
    except TemplateError:
        return "assistant: "


def check_every_cut(source: str) -> None:
    reasoning = reasoning_format(source)
    prompt = think_on(source)
    if reasoning is None:
        expected = "", ANSWER
        text = ANSWER
    else:
        expected = THOUGHT, ANSWER
        text = written(reasoning, prompt)
    for pieces in cuts(text):
        assert split_of(reasoning, prompt, *pieces) == expected
    raw = text.encode()
    assert split_of(reasoning, prompt, *(raw[i : i + 1] for i in range(len(raw)))) == expected


@pytest.mark.parametrize("name", published_names() or ["none"])
def test_with_each_published_template_a_stream_cut_at_every_byte_is_the_split_of_the_whole(
    name: str,
) -> None:
    check_every_cut(published(name))


@pytest.mark.parametrize("name", OWN)
def test_with_each_kind_of_template_a_stream_cut_at_every_byte_is_the_split_of_the_whole(
    name: str,
) -> None:
    check_every_cut(OWN[name])


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("as_control", [True, False])
def test_marks_that_are_tokens_are_found_by_their_ids(name: str, as_control: bool) -> None:
    reasoning = reasoning_format(OWN[name])
    assert reasoning is not None
    marks = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|channel>"]
    marks += [mark for mark in (reasoning.start, reasoning.end) if mark.count("<") <= 1]
    vocab = ByteVocab(marks) if as_control else ByteVocab([], user_defined=marks)
    prompt = vocab.tokenize(think_on(OWN[name]), special=True)
    text = written(reasoning, think_on(OWN[name])).removesuffix(ANSWER)
    tokens = vocab.tokenize(text, special=True) + list(ANSWER.encode())
    assert split(make_splitter(reasoning, vocab, prompt), tokens) == (THOUGHT, ANSWER)


def test_text_that_only_spells_a_mark_is_not_the_token() -> None:
    vocab = ByteVocab(["<think>", "</think>"])
    start, end = vocab.control.values()
    tokens = [start, *b"is </think> a word?", end, *b"Yes"]
    assert split(make_splitter(TAGS, vocab), tokens) == ("is </think> a word?", "Yes")
    spelled = list(b"<think>no</think>")
    assert split(make_splitter(TAGS, vocab), spelled) == ("", "<think>no</think>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4", ("", "4")),
        ("  \n4", ("", "  \n4")),
        (" \n", ("", " \n")),
        ("", ("", "")),
        ("<thin", ("", "<thin")),
        ("<thing> 4", ("", "<thing> 4")),
        ("4 <think>no</think>", ("", "4 <think>no</think>")),
        ("\n<think>yes</think>4", ("yes", "4")),
        ("<think>\n\n</think>\n\n4", ("", "4")),
        ("<think>yes", ("yes", "")),
        ("<think>yes\n</thi", ("yes\n</thi", "")),
        ("<think>yes</think>\n\n", ("yes", "")),
        ("</think>\n4", ("", "4")),
        ("<think>a <think> b</think>4</think>", ("a <think> b", "4</think>")),
    ],
)
def test_only_the_first_block_is_a_thought(text: str, expected: tuple[str, str]) -> None:
    for pieces in cuts(text):
        assert split_of(TAGS, "assistant:", *pieces) == expected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("<think>", ("a", "b <think>c")),
        ("<think>\n", ("a", "b <think>c")),
        ("<think>\n\n</think>\n\n", ("", "a</think>b <think>c")),
        ("</think>", ("", "a</think>b <think>c")),
    ],
)
def test_a_prompt_may_open_a_thought_or_close_it(prompt: str, expected: tuple[str, str]) -> None:
    assert split_of(TAGS, prompt, b"a</think>b <think>c") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|channel|>final<|message|>4", ("", "4")),
        ("<|channel|>analysis<|message|>We", ("We", "")),
        (
            "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
            "<|channel|>final<|message|>4",
            ("I look.", "4"),
        ),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant to=functions.f"
            '<|channel|>commentary json<|message|>{"x":1}',
            ("a", ""),
        ),
        (
            "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|end|>"
            "<|start|>assistant<|channel|>final<|message|>4",
            ("", "4"),
        ),
        ("<|message|>4", ("", "4")),
        ("plain words <|channel|>", ("", "plain words <|channel|>")),
        ("<|channel|>fin", ("", "")),
        ("<|channel|>" + "x" * 300, ("", "<|channel|>" + "x" * 300)),
        ("", ("", "")),
    ],
)
def test_what_a_harmony_header_says_is_where_a_message_goes(
    text: str, expected: tuple[str, str]
) -> None:
    for pieces in cuts(text):
        assert split_of(HARMONY, "<|end|><|start|>assistant", *pieces) == expected


def test_a_harmony_prompt_may_open_the_answer() -> None:
    prompt = "<|start|>assistant<|channel|>final<|message|>"
    assert split_of(HARMONY, prompt, b"4<|channel|>") == ("", "4<|channel|>")


@given(st.lists(st.binary(max_size=6)))
def test_whatever_comes_no_byte_of_an_unmarked_answer_is_lost(pieces: list[bytes]) -> None:
    splitter = make_splitter(TAGS, FakeVocab(len(pieces) + 1, pieces=dict(enumerate(pieces))))
    parts = [*map(splitter.feed, range(len(pieces))), splitter.finish()]
    whole = b"".join(pieces)
    if not whole.lstrip(b" \t\r\n").startswith((b"<think>", b"</think>")):
        assert b"".join(part.answer for part in parts) == whole
        assert splitter.answer_byte == (0 if whole else None)


def test_the_answer_begins_at_its_first_byte_whatever_held_it_back() -> None:
    pieces = [b"<think>", b"ab", b"</thi", b"nk>\n", b"\n4"]
    vocab = FakeVocab(5, pieces=dict(enumerate(pieces)))
    splitter = make_splitter(TAGS, vocab)
    states = []
    for token in range(5):
        splitter.feed(token)
        states.append((splitter.is_thinking, splitter.expects_answer))
    assert states == [(True, False)] * 3 + [(False, True)] * 2
    assert splitter.answer_byte == len(b"".join(pieces)) - 1
