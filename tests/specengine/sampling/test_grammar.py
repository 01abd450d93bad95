"""Grammars on SmolLM2's vocabulary, through llama.cpp's own sampler."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.draft import Draft
from specengine.errors import GrammarError, SamplingError
from specengine.llama import library
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from specengine.sampling.grammar import Grammar
from specengine.sampling.json_schema import json_schema_to_gbnf
from support.llama_samplers import apply
from support.smollm import SmolLM

PERSON = json_schema_to_gbnf(
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 12},
                "age": {"type": "integer", "minimum": 0},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
            },
            "required": ["name", "age"],
        }
    )
)
ANSWER = '{"name": "Bob", "age": 7}'
PROMPT = np.array([1, 5, 9], dtype=np.int32)


def history(smollm: SmolLM, text: str) -> NDArray[np.int32]:
    return np.array([*PROMPT, *smollm.model.vocab.tokenize(text)], dtype=np.int32)


def all_ids(smollm: SmolLM) -> NDArray[np.int32]:
    return np.arange(smollm.model.vocab.size, dtype=np.int32)


@pytest.fixture
def grammar(smollm: SmolLM) -> Callable[[str], Grammar]:
    return lambda gbnf: Grammar(gbnf, smollm.vocab_pointer, len(PROMPT))


def allowed_by_llama(smollm: SmolLM, gbnf: str, answer: NDArray[np.int32]) -> NDArray[np.bool_]:
    llama = library.load()
    sampler = llama.llama_sampler_init_grammar(smollm.vocab_pointer, gbnf.encode(), b"root")
    for token in answer.tolist():
        llama.llama_sampler_accept(sampler, token)
    ids = all_ids(smollm)
    logits = apply(sampler, ids, np.zeros(len(ids), dtype=np.float32))["logit"]
    llama.llama_sampler_free(sampler)
    return np.asarray(logits == 0)


def test_what_is_allowed_is_what_llama_cpp_allows(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    person = grammar(PERSON)
    tokens = history(smollm, ANSWER)
    for n in range(len(PROMPT), len(tokens) + 1):
        allowed = person.allowed(tokens[:n], all_ids(smollm))
        assert (allowed == allowed_by_llama(smollm, PERSON, tokens[len(PROMPT) : n])).all()
    assert np.flatnonzero(allowed).tolist() == sorted(smollm.model.vocab.eog)


def test_going_back_and_elsewhere_equals_a_fresh_grammar(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    person = grammar(PERSON)
    rng = np.random.default_rng(0)
    texts = [history(smollm, text) for text in (ANSWER, '{"name": "Eve', '{"name": "Bo', '{ "name')]
    some = rng.choice(all_ids(smollm), 300, replace=False)
    for _ in range(60):
        text = texts[rng.integers(len(texts))]
        text = text[: rng.integers(len(PROMPT), len(text) + 1)]
        expected = grammar(PERSON).allowed(text, some)
        assert (person.allowed(text, some) == expected).all()


def test_going_back_beyond_the_states_that_are_kept(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    digits = grammar("root ::= [0-9]{0,150}")
    long = np.array([*PROMPT, *smollm.model.vocab.tokenize("7" * 150)], dtype=np.int32)
    seven = long[-1:]
    assert not digits.allowed(long, seven)[0]
    assert digits.allowed(long[: len(PROMPT) + 3], seven)[0]
    assert not digits.allowed(long, seven)[0]


def test_an_answer_that_breaks_the_grammar_is_an_error_and_not_the_end(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    # Accepting such a token, or an end too early, would end the process inside llama.cpp.
    person = grammar(PERSON)
    with pytest.raises(GrammarError, match=r"token \d+, number 0 of the answer, breaks"):
        person.allowed(history(smollm, "```json"), all_ids(smollm))
    end = np.array([*PROMPT, smollm.model.vocab.eos], dtype=np.int32)
    with pytest.raises(GrammarError, match="number 0 of the answer"):
        person.allowed(end, all_ids(smollm))
    assert person.allowed(PROMPT, all_ids(smollm)).any()


@pytest.mark.parametrize(
    ("gbnf", "reason"),
    [
        ("", "the grammar is empty"),
        (" \n", "the grammar is empty"),
        ('root ::= "a', "unexpected end of input"),
        ("root ::= missing", "Undefined rule identifier 'missing'"),
        ('start ::= "a"', "does not contain a 'root' symbol"),
        ('root ::= root "a"', "left recursion"),
        ("{}", "expecting name"),
        ('root ::= "a"{3,1}', "repeats something from 3 to 1 times"),
        ("root ::= \0", "NUL"),
        ("root ::= " + "(" * 500 + '"a"' + ")" * 500, "nests 500 parentheses"),
        ("\n".join(f"r{i} ::= r{i + 1}" for i in range(5000)), "5000 rules"),
        ('root ::= "' + "a" * 300_000 + '"', "300011 bytes"),
        ('root ::= "\ud800"', "not valid Unicode"),
    ],
)
def test_a_bad_grammar_is_refused_in_one_line_and_nothing_is_printed(
    gbnf: str, reason: str, grammar: Callable[[str], Grammar], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(GrammarError) as refused:
        grammar(gbnf)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


def test_brackets_and_counts_inside_of_literals_are_no_syntax(
    grammar: Callable[[str], Grammar],
) -> None:
    grammar('root ::= "{3,1}" [({3,1}] "' + "(" * 300 + '" # {3,1}')


SETTINGS: list[dict[str, Any]] = [
    {},
    {"top_p": 1, "min_p": 0},
    {"top_k": 0},
    {"top_k": 0, "top_p": 1},
    {"top_k": 0, "top_p": 1, "min_p": 0},
    {"top_k": 3, "top_p": 0.5, "min_p": 0},
    {"typical_p": 0.7},
    {"temperature": 0},
    {"temperature": 0, "typical_p": 0.5},
    {"repeat_penalty": 1.5, "logit_bias": {28: 5.0, 107: float("-inf")}},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_asking_from_the_best_down_equals_masking_everything_first(
    settings: dict[str, Any], smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    params = SamplingParams(**settings)
    constrained = Transforms(params, grammar(PERSON))
    tokens = history(smollm, ANSWER)
    for n in range(len(PROMPT), len(tokens)):
        allowed = allowed_by_llama(smollm, PERSON, tokens[len(PROMPT) : n])
        for row in smollm.rows[::6]:
            p = constrained.distribution(row, tokens[:n])
            masked = np.where(allowed, row, np.float32(-np.inf))
            expected = Transforms(params).distribution(masked, tokens[:n])
            support = expected.ids[expected.probs > 0]
            assert p.ids[p.probs > 0].tolist() == support.tolist()
            np.testing.assert_allclose(p.probs_of(support), expected.probs_of(support), rtol=1e-12)


def test_a_grammar_whose_tokens_the_bias_masks_is_an_error(
    smollm: SmolLM, grammar: Callable[[str], Grammar]
) -> None:
    only_a = grammar('root ::= "a"')
    (token,) = np.flatnonzero(only_a.allowed(PROMPT, all_ids(smollm))).tolist()
    params = SamplingParams(logit_bias={token: float("-inf")})
    with pytest.raises(SamplingError, match="allows and the logit bias does not mask"):
        Transforms(params, only_a).distribution(smollm.rows[0], PROMPT)


@pytest.mark.parametrize("rule_name", ["token", "block", "coupled", "typical"])
def test_case_9_a_fenced_draft_is_rejected_and_the_output_parses(
    rule_name: str, smollm: SmolLM
) -> None:
    params = SamplingParams(temperature=0.8, seed=9)
    rule = make_rule(rule_name, params)
    vocab, context = smollm.model.vocab, smollm.context
    prompt = vocab.tokenize("Bob is seven years old. As JSON:\n")
    transforms = Transforms(params, Grammar(PERSON, smollm.vocab_pointer, len(prompt)))
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
