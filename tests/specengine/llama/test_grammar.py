"""Grammars on SmolLM2's vocabulary, through llama.cpp's own sampler."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specengine.core.bounded_thread import BoundedThread
from specengine.core.cancel import AbortFlag
from specengine.core.draft import Draft
from specengine.core.errors import CancelledError, GrammarError, SamplingError
from specengine.llama import library
from specengine.llama.grammar import MAX_LEFT_BEHIND, Grammar
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
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


@dataclass
class Stuck:
    end: threading.Event = field(default_factory=threading.Event)
    applied: int = 0
    freed: int = 0


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    """llama.cpp does not come back from telling what a grammar allows, until `stuck.end` is set."""
    llama, stuck = library.load(), Stuck()
    free = llama.llama_sampler_free

    def apply(state: Any, candidates: Any) -> None:
        stuck.applied += 1
        stuck.end.wait()

    def freed(state: Any) -> None:
        stuck.freed += 1
        free(state)

    monkeypatch.setattr(llama, "llama_sampler_apply", apply)
    monkeypatch.setattr(llama, "llama_sampler_free", freed)
    yield stuck
    stuck.end.set()
    while BoundedThread.left_behind():
        time.sleep(0.001)


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
    with pytest.raises(GrammarError, match=r"token \d+, number 0 of the answer, violates"):
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
        ("root ::= " + "(" * 500 + '"a"' + ")" * 500, "nests parentheses 500 deep"),
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
    with pytest.raises(SamplingError, match="tokens that the logit bias leaves"):
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


def test_a_step_that_takes_too_long_is_an_error_and_the_next_grammar_works(
    smollm: SmolLM,
    grammar: Callable[[str], Grammar],
    stuck: Stuck,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("specengine.llama.grammar.LIMIT_S", 0.0)
    with monkeypatch.context() as patient:
        patient.setattr("specengine.llama.grammar.LIMIT_S", 60.0)
        slow, other = grammar('root ::= "a"'), grammar('root ::= "b"')
    with pytest.raises(GrammarError, match="takes longer than 0 s"):
        slow.allowed(PROMPT, all_ids(smollm))
    assert stuck.freed == 0  # llama.cpp still reads its state
    with pytest.raises(GrammarError, match="closed"):
        slow.allowed(PROMPT, all_ids(smollm))
    stuck.end.set()
    while BoundedThread.left_behind():
        time.sleep(0.001)
    assert stuck.freed == 1
    assert stuck.applied <= 1  # between two calls it looks whether anybody waits
    monkeypatch.undo()
    assert other.allowed(PROMPT, all_ids(smollm)).any()


def test_a_person_who_cancels_does_not_wait_for_a_grammar(smollm: SmolLM, stuck: Stuck) -> None:
    abort = AbortFlag()
    slow = Grammar('root ::= "a"', smollm.vocab_pointer, 0, abort)
    abort.set()
    with pytest.raises(CancelledError):
        slow.allowed(np.empty(0, dtype=np.int32), all_ids(smollm))


def test_grammars_are_refused_while_too_many_keep_llama_cpp_busy(
    smollm: SmolLM, stuck: Stuck
) -> None:
    abort = AbortFlag()
    for _ in range(MAX_LEFT_BEHIND):
        slow = Grammar('root ::= "a"', smollm.vocab_pointer, 0, abort)
        abort.set()
        with pytest.raises(CancelledError):
            slow.allowed(PROMPT[:0], all_ids(smollm))
        abort.clear()
    with pytest.raises(GrammarError, match="still keep llama"):
        Grammar('root ::= "a"', smollm.vocab_pointer, 0)


def test_a_grammar_whose_readings_double_with_each_letter_ends_with_an_error(
    grammar: Callable[[str], Grammar], smollm: SmolLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubling = grammar('root ::= "a" root "b" | "a" root "c"')
    (a,) = smollm.model.vocab.tokenize("a")
    monkeypatch.setattr("specengine.llama.grammar.LIMIT_S", 0.05)

    def follow() -> None:
        for n in range(40):
            doubling.allowed(np.append(PROMPT, np.repeat(np.int32(a), n)), all_ids(smollm))

    with pytest.raises(GrammarError, match="in too many ways"):
        follow()
    while BoundedThread.left_behind():
        time.sleep(0.001)


def test_states_of_rejected_drafts_are_freed(
    grammar: Callable[[str], Grammar], smollm: SmolLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama, freed = library.load(), []
    free = llama.llama_sampler_free

    def note(state: Any) -> None:
        freed.append(state)
        free(state)

    monkeypatch.setattr(llama, "llama_sampler_free", note)
    of_person, ids = grammar(PERSON), all_ids(smollm)[:64]
    answer = history(smollm, ANSWER)
    of_person.allowed(answer, ids)
    of_person.allowed(answer[:-3], ids)  # three draft tokens were rejected
    assert len(freed) == 3
    of_person.close()
    assert len(freed) == len(answer) - len(PROMPT) + 1
