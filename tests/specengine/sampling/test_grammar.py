"""Grammars on SmolLM2's vocabulary."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.core.draft import Draft
from specengine.core.errors import GrammarError, SamplingError
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.grammar import Grammar
from support.piece_vocab import PieceVocab
from support.smollm import SmolLM

PERSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer", "minimum": 0},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)
ANSWER = '{"name": "Bob", "age": 7}'
PROMPT = np.array([1, 5, 9], dtype=np.int32)


def history(smollm: SmolLM, text: str) -> NDArray[np.int32]:
    return np.array([*PROMPT, *smollm.model.vocab.tokenize(text)], dtype=np.int32)


@pytest.fixture
def grammar(smollm: SmolLM) -> Callable[[str], Grammar]:
    return lambda text: Grammar(text, smollm.model.vocab, len(PROMPT))


def pieces(smollm: SmolLM, mask: NDArray[np.bool_]) -> set[bytes]:
    return {smollm.model.vocab.piece(token) for token in np.flatnonzero(mask).tolist()}


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        ("GBNF", 'root ::= "7" [0-9]{1,2} | "no"'),
        ("Lark", 'start: "7" /[0-9]{1,2}/ | "no"'),
        ("JSON schema", '{"enum": [71, 72]}'),
    ],
)
def test_what_is_allowed_continues_a_text_of_the_grammar(
    notation: str, text: str, smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    follows = grammar(text)
    begun = pieces(smollm, follows.allowed(PROMPT))
    assert b"7" in begun
    assert begun <= ({b"7"} if notation == "JSON schema" else {b"7", b"n", b"no"})
    after = pieces(smollm, follows.allowed(history(smollm, "7")))
    assert b"1" in after
    assert all(piece.isdigit() for piece in after)


def test_where_a_text_is_complete_only_its_end_is_allowed(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    person, ends = grammar(PERSON), sorted(smollm.model.vocab.eog)
    whole = history(smollm, ANSWER)
    assert np.flatnonzero(person.allowed(whole)).tolist() == ends
    for end in ends:  # a draft may say it, and have its outcome looked at
        assert np.flatnonzero(person.allowed(np.append(whole, end))).tolist() == ends


def test_going_back_and_elsewhere_equals_a_fresh_grammar(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    person = grammar(PERSON)
    rng = np.random.default_rng(0)
    texts = [history(smollm, text) for text in (ANSWER, '{"name": "Eve', '{"name": "Bo', '{ "name')]
    for _ in range(60):
        text = texts[rng.integers(len(texts))]
        text = text[: rng.integers(len(PROMPT), len(text) + 1)]
        assert (person.allowed(text) == grammar(PERSON).allowed(text)).all()


def test_an_answer_that_breaks_the_grammar_is_an_error_and_the_grammar_goes_on(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    person = grammar(PERSON)
    with pytest.raises(GrammarError, match=r"token \d+, number 0 of the answer, violates"):
        person.allowed(history(smollm, "```json"))
    end = np.array([*PROMPT, smollm.model.vocab.eos], dtype=np.int32)
    with pytest.raises(GrammarError, match="number 0 of the answer"):
        person.allowed(end)
    fresh = grammar(PERSON).allowed(PROMPT)
    assert (person.allowed(PROMPT) == fresh).all()


def test_tokens_that_act_as_control_tokens_are_never_allowed() -> None:
    texts = [b"<|start|>", b"<b>", b"a", b"<", b"|", b"start", b">"]
    vocab = PieceVocab(texts, control=["<end>"], eos="<end>")
    vocab.user_defined |= {"<|start|>": 0, "<b>": 1}
    anything = Grammar("root ::= [a-z<>|]*", vocab, 0)
    assert np.flatnonzero(anything.allowed(PROMPT[:0])).tolist() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the grammar is empty"),
        (" \n", "the grammar is empty"),
        ('root ::= "a', "Unexpected end of input"),
        ("root ::= missing", "'missing' not found"),
        ('begin ::= "a"', "No 'root' rule"),
        ('root ::= "a"{3,1}', "range end must be >= start"),
        ("root ::= \0", "Expected name"),
        ("root ::= " + "(" * 5000 + '"a"' + ")" * 5000, "nested too deeply"),
        ('root ::= "' + "a" * 300_000 + '"', "300011 bytes"),
        ('root ::= "\ud800"', "not valid Unicode"),
        ("start: missing", "missing"),
        ('{"type": "text"}', "the JSON schema at #"),
    ],
)
def test_a_bad_grammar_is_refused_in_one_line_and_nothing_is_printed(
    text: str, reason: str, grammar: Callable[[str], Grammar], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(GrammarError) as refused:
        grammar(text)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ('root ::= "a" root "b" | "a" root "c"', "a"),
        ('root ::= ("a" | "a" "a" | "a" "a" "a")* ("a" | "a" "a")* "b"', "a"),
        ("root ::= (((([a-z]? [a-z]?)* [a-z]?)* [a-z]?)* [a-z]?)*", "a"),
        ('{"$ref": "#/$defs/x", "$defs": {"x": {"anyOf": [{"items": {"$ref": "#/$defs/x"}},'
         '{"prefixItems": [{"$ref": "#/$defs/x"}]}]}}}', "["),
    ],
)  # fmt: skip
def test_a_text_that_can_be_read_in_ever_more_ways_is_followed_or_ends_with_an_error(
    text: str, of: str, grammar: Callable[[str], Grammar], smollm: SmolLM
) -> None:
    follows = grammar(text)
    (token,) = smollm.model.vocab.tokenize(of)
    with contextlib.suppress(GrammarError):
        for n in range(100):  # where the cost doubles with each letter, this takes for ever
            follows.allowed(np.append(PROMPT, np.repeat(np.int32(token), n)))


SETTINGS: list[dict[str, Any]] = [
    {},
    {"top_p": 1, "min_p": 0},
    {"top_k": 0, "top_p": 1, "min_p": 0},
    {"top_k": 3, "top_p": 0.5, "min_p": 0},
    {"typical_p": 0.7},
    {"temperature": 0},
    {"temperature": 0, "typical_p": 0.5},
    {"repeat_penalty": 1.5, "logit_bias": {28: 5.0, 107: float("-inf")}},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_distribution_is_that_of_logits_which_are_masked(
    settings: dict[str, Any], smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    params = SamplingParams(**settings)
    constrained = Transforms(params, grammar(PERSON))
    tokens, other = history(smollm, ANSWER), grammar(PERSON)
    for n in range(len(PROMPT), len(tokens)):
        allowed = other.allowed(tokens[:n])
        for row in smollm.rows[::6]:
            before = row.copy()
            p = constrained.distribution(row, tokens[:n])
            assert (row == before).all()
            masked = np.where(allowed, row, np.float32(-np.inf))
            expected = Transforms(params).distribution(masked, tokens[:n])
            support = expected.ids[expected.probs > 0]
            assert p.ids[p.probs > 0].tolist() == support.tolist()
            np.testing.assert_allclose(p.probs_of(support), expected.probs_of(support), rtol=1e-12)


@pytest.mark.parametrize(
    ("bias", "reason"),
    [(True, "model's tokens that the logit bias leaves$"), (False, "none of this model's tokens$")],
)
def test_where_no_token_is_left_it_is_said_whose_fault_it_is(
    bias: bool, reason: str, smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    only_a = grammar('root ::= "a"')
    (token,) = np.flatnonzero(only_a.allowed(PROMPT)).tolist()
    params = SamplingParams(logit_bias={token: float("-inf")} if bias else {})
    row = smollm.rows[0].copy()
    row[token] = -np.inf
    with pytest.raises(SamplingError, match=reason):
        Transforms(params, only_a).distribution(row, PROMPT)


@pytest.mark.parametrize("rule_name", ["token", "block", "coupled", "typical"])
def test_case_9_a_fenced_draft_is_rejected_and_the_output_parses(
    rule_name: str, smollm: SmolLM
) -> None:
    params = SamplingParams(temperature=0.8, seed=9)
    rule = make_rule(rule_name, params)
    vocab, context = smollm.model.vocab, smollm.context
    prompt = vocab.tokenize("Bob is seven years old. As JSON:\n")
    transforms = Transforms(params, Grammar(PERSON, vocab, len(prompt)))
    fence = vocab.tokenize("```json\n{")
    sequence = list(prompt)
    while sequence[-1] not in vocab.eog and len(sequence) < 200:
        draft = Draft(list(fence), [None] * len(fence))
        tokens = np.array([*sequence, *fence], dtype=np.int32)
        rows = context.logits(tokens, last=len(fence) + 1)
        n = len(sequence)
        verdict = rule.verify(
            draft,
            lambda i: transforms.distribution(rows[i], tokens[: n + i]),  # noqa: B023
            n,
        )
        assert "```" not in vocab.piece(verdict.token).decode(errors="replace")
        sequence += [*fence[: verdict.accepted], verdict.token]
    text = b"".join(vocab.piece(token) for token in sequence[len(prompt) :]).decode()
    person = json.loads(text)
    assert set(person) - {"tags"} == {"name", "age"}
    assert person["age"] >= 0
    assert len(person["name"]) <= 12
