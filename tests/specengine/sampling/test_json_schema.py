"""What the grammar of a schema lets through, and how it says what it cannot enforce."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specengine.core.errors import GrammarError
from specengine.sampling.grammar import Grammar
from specengine.sampling.json_schema import schema_as_lark
from support.byte_vocab import ByteVocab

VOCAB = ByteVocab(["<end>"], eos="<end>")
SUITES = Path(__file__).parents[4] / "shared" / "suites"

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "mail": {"type": ["string", "null"]},
    },
    "required": ["age"],
    "additionalProperties": False,
    "title": "Person",
}
TREE = {
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"leaf": {"type": "integer"}, "next": {"$ref": "#/$defs/tree"}},
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/tree",
}
QUOTES = 'say "hi"\\\n\té'


def accepts(schema: Any, text: str) -> bool:
    grammar = Grammar(json.dumps(schema), VOCAB, 0)
    tokens = np.array([*text.encode(), VOCAB.eos], dtype=np.int32)
    try:
        return bool(grammar.allowed(tokens[:-1])[tokens[-1]])
    except GrammarError:
        return False


def refusal(schema: str) -> str | None:
    """Why it is refused, None where it is not."""
    try:
        schema_as_lark(schema)
    except GrammarError as error:
        line = str(error)
    else:
        return None
    assert "\n" not in line
    assert len(line) < 300
    return line


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({}, ["1", '"a"', "[1, {}]", '{"a": null}', "-1.5e3"], ["a", "01", "{a: 1}", "nul"]),
        ({"description": "anything"}, ["[]"], ["]"]),
        ({"type": "string"}, ['""', '"é\\n\\""'], ['"a', '"\n"', '"\\x"', '"\\ud83d"', "1"]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"éée"'], ['"a"', '"abcd"']),
        ({"maxLength": 2}, ['"ab"', "1"], ['"abc"']),
        ({"type": "integer"}, ["0", "-12"], ["1.5", "007", "1e3"]),
        ({"type": "integer", "minimum": 0}, ["0", "12"], ["-1"]),
        ({"type": "integer", "exclusiveMinimum": 0}, ["1", "12"], ["0", "-1"]),
        ({"type": "number", "minimum": 0}, ["0.5", "12"], ["-0.5", ".5"]),
        ({"type": "boolean"}, ["true", "false"], ["True", "null"]),
        ({"type": "null"}, ["null"], ["0"]),
        ({"type": ["integer", "null"]}, ["3", "null"], ['"3"']),
        ({"const": QUOTES}, [json.dumps(QUOTES, ensure_ascii=False)], [json.dumps("say")]),
        ({"const": {"a": [1, None]}}, ['{"a": [1, null]}'], ['{"a": [1]}']),
        ({"enum": ["a", 1, None]}, ['"a"', "1", "null"], ['"b"', "2"]),
        ({"enum": ["a", 1, True], "type": ["integer", "boolean"]}, ["1", "true"], ['"a"']),
        ({"type": "array"}, ["[]", '[1, "a", [2]]'], ["[1,]", "[1 2]"]),
        (
            {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
            ["[true]", "[true, false]", "[\n  true\n]"],
            ["[]", "[true, true, true]", "[1]"],
        ),
        ({"type": "array", "items": {}, "minItems": 2}, ["[1, 2]", "[1, 2, 3]"], ["[1]", "[]"]),
        ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
        (
            {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
            ['["a", 1]', '["a"]'],
            ['[1, "a"]', '["a", 1, 2]'],
        ),
        (
            PERSON,
            ['{"age": 3}', '{"name": "a", "age": 3}', '{"age":3,"mail":null}'],
            ["{}", '{"name": "a"}', '{"age": 3, "other": 1}', '{"age": "3"}', '{"age": 3,}'],
        ),
        (TREE, ["{}", '{"leaf": 1, "next": {"next": {}}}'], ['{"next": 1}', '{"next": {"x": {}}}']),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            ["{}", '{"a": 1, "b": 2}'],
            ['{"a": "1"}'],
        ),
        ({"type": "object", "additionalProperties": False}, ["{}"], ['{"a": 1}']),
        ({"type": "object"}, ['{"a": [1]}'], ["[]"]),
        ({"anyOf": [{"type": "integer"}, {"const": "x"}]}, ["1", '"x"'], ['"y"']),
        ({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"const": 1}}}, ["1"], ["2"]),
        ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2024-02-30"', '"2024-04-31"']),
        (
            {"type": "string", "format": "date"},
            [f'"{day}"' for day in ("2000-02-29", "2023-02-28", "1996-02-29", "2023-04-30")],
            [f'"{day}"' for day in ("2023-02-29", "1900-02-29", "2022-02-30", "2023-13-01")],
        ),
        ({"type": "string", "format": "date-time"}, ['"2024-12-31T23:59:59Z"'], ['"2024-12-31"']),
        (
            {"type": "string", "format": "uuid"},
            ['"123e4567-e89b-12d3-a456-426614174000"'],
            ['"123e4567"'],
        ),
        ({"format": "email"}, ['"a@b.example"', "1"], ['"not one"']),
        ({"format": "of a house"}, ['"anything"'], ["'"]),
        ({"format": "hostname"}, ['"a-1.example"'], ['"-a"', '"ab--c"', f'"{"a." * 127}"']),
        ({"format": "time"}, ['"23:59:01.5-01:30"'], ['"23:59:60Z"', '"24:00:00Z"', '"01:02:03"']),
        ({"format": "date", "pattern": "^2"}, ['"2024-01-01"'], ['"1999-01-01"', '"2"']),
        ({"pattern": r"^[a\s]\S$"}, ['"ab"', '" b"'], ['"a "', '"b "', '"a\ufeff"']),
        ({"enum": ["x"], "x-of-ours": 1, "discriminator": {"propertyName": "a"}}, ['"x"'], ['"y"']),
        ({"type": "integer", "minimum": 3, "maximum": 12}, ["3", "12"], ["2", "13"]),
        ({"allOf": [{"minimum": 3}, {"type": "integer"}]}, ["3"], ["2", "3.5"]),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, ["null", '"a"'], ["1"]),
        ({"uniqueItems": False, "type": "array"}, ["[1, 1]"], ["1"]),
        ({"type": "array", "items": {"const": 1}}, ["[1,\n   1]"], ["[1,  1]", "[1,\n\n1]"]),
    ],
)  # fmt: skip
def test_the_grammar_lets_through_what_is_valid_and_nothing_else(
    schema: Any, valid: list[str], invalid: list[str]
) -> None:
    assert {text: accepts(schema, text) for text in valid} == dict.fromkeys(valid, True)
    assert {text: accepts(schema, text) for text in invalid} == dict.fromkeys(invalid, False)


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ('{"type": ', "the JSON schema is not JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"const": NaN}', "contains NaN"),
        ('{"const": 1e400}', "contains a number that is too large: 1e400"),
        (f'{{"const": {"7" * 5000}}}', "contains a number that is too large: 777"),
        ('{"const": "\\ud800"}', "contains half of a surrogate pair"),
        ('{"properties": {"\\udfff": {}}}', "contains half of a surrogate pair"),
        ('{"type": "text"}', "at # cannot be used: Invalid type: text"),
        ('{"properties": {"a": {"type": [["a"]]}}}', "at #/properties/a cannot be used"),
        ('{"properties": {"a": {"not": {}}}}', 'at #/properties/a has "not", which cannot be'),
        ('{"items": [{"anyOf": [{}, {"contains": {}}]}]}', 'at #/items/0/anyOf/1 has "contains"'),
        ('{"$defs": {"a": {"uniqueItems": true}}, "$ref": "#/$defs/a"}', "at #/$defs/a has"),
        ('{"properties": {"a/b~": {"minItems": -1}}}', "at #/properties/a~1b~0 cannot be used"),
        ('{"properties": {"a": {"minLength": true}}}', "at #/properties/a cannot be used"),
        ('{"properties": {"a": {"format": "regex"}}}', "at #/properties/a cannot be used: Unknown"),
        ('{"additionalProperties": {"format": ["date"]}}', "at #/additionalProperties cannot be"),
        ('{"items": {"pattern": "(?=a)"}}', "look-around"),
        ('{"items": {"pattern": "[\\\\S]"}}', r"at #/items has a pattern with \S between"),
        ('{"oneOf": [{"minimum": 1}, {"maximum": 2}]}', "at # has oneOf, whose alternatives may"),
        ('{"type": "string", "minLength": 3, "maxLength": 2}', "minLength (3) is greater"),
        ('{"enum": []}', "at # cannot be used: Unsatisfiable"),
        ('{"$ref": "#/$defs/x"}', "'/$defs/x' does not exist"),
        (
            '{"items": {"$ref": "https://a.example/x"}}',
            "at #/items cannot be used: Resource",
        ),
        ('{"items": {"$ref": "#/$defs/x", "$id": "b"}, "$defs": {"x": {}}}', "at #/items has $id"),
        (f'{{"properties": {{"{"n" * 9999}": {{"not": {{}}}}}}}}', "nnn has"),
        (f'{{"type": "{"t" * 9999}"}}', "Invalid type"),
        ('{"properties": {"a\\nb": {"not": {}}}}', r"at #/properties/a\nb has"),
    ],
)
def test_what_cannot_be_enforced_is_refused_by_its_place_in_one_short_line(
    schema: str, line: str
) -> None:
    assert line in (refusal(schema) or "")


KEYWORDS = {
    *("type", "const", "enum", "anyOf", "oneOf", "allOf", "$ref", "format", "minLength"),
    *("maxLength", "minItems", "maxItems", "items", "prefixItems", "minimum", "exclusiveMinimum"),
    *("properties", "required", "additionalProperties", "title", "pattern", "$defs"),
}
WRONG_VALUES = ["null", "true", "-1", "0.5", "1e400", "9" * 5000, '"x"', '["x"]', '{"x": "x"}']


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_a_keyword_with_a_wrong_value_gives_a_grammar_or_one_line(keyword: str) -> None:
    for wrong in WRONG_VALUES:
        for kind in ("", '"type": "integer", ', '"type": ["string", "array", "number"], '):
            schema = f'{{"properties": {{"a": {{{kind}"{keyword}": {wrong}}}}}}}'
            refused = refusal(schema)
            assert refused is None or refused.startswith("the JSON schema"), schema[:99]


def schemas_of(suite: str) -> Iterator[dict[str, Any]]:
    path = SUITES / f"{suite}.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@pytest.mark.parametrize(
    ("suite", "least"), [("json-schema-test-suite", 0.5), ("jsonschemabench", 0.84)]
)
def test_of_public_suites_most_is_accepted_and_nothing_invalid_let_through(
    suite: str, least: float
) -> None:
    n = accepted = 0
    for case in schemas_of(suite):
        if "/optional/content" in case["id"]:
            continue  # what strings encode is an annotation since 2019
        n += 1
        if refusal(case["schema_text"]) is not None:
            continue
        accepted += 1
        schema = json.loads(case["schema_text"])
        for test in case["tests"]:
            if not test["valid"]:
                text = json.dumps(test["data"], ensure_ascii=False)
                assert not accepts({} if schema is True else schema, text), (case["id"], text)
    assert accepted >= least * n
