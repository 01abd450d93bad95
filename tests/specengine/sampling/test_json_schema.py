"""What the grammar of a schema lets through, asked of llama.cpp with SmolLM2's vocabulary."""

import itertools
import json
from typing import Any

import numpy as np
import pytest

from specengine.core.errors import GrammarError
from specengine.llama.grammar import Grammar
from specengine.sampling.json_schema import json_schema_to_gbnf
from support.smollm import SmolLM

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "mail": {"type": ["string", "null"]},
    },
    "required": ["age"],
    "title": "Person",
}
TREE = {
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"leaf": {"type": "integer"}, "next": {"$ref": "#/$defs/tree"}},
        }
    },
    "$ref": "#/$defs/tree",
}
QUOTES = 'say "hi"\\\n\té'


def accepts(smollm: SmolLM, schema: Any, text: str) -> bool:
    grammar = Grammar(json_schema_to_gbnf(json.dumps(schema)), smollm.vocab_pointer, 0)
    vocab = smollm.model.vocab
    tokens = np.array([*vocab.tokenize(text), vocab.eos], dtype=np.int32)
    return all(grammar.allowed(tokens[:n], tokens[n : n + 1])[0] for n in range(len(tokens)))


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (True, ["1", '"a"', "[1, {}]", '{"a": null}', "-1.5e3"], ["a", "01", "{a: 1}", "nul"]),
        ({"description": "anything"}, ["[]"], ["]"]),
        ({"type": "string"}, ['""', '"é\\n\\u00e9\\""'], ['"a', '"\n"', '"\\x"', '"\\ud83d"', "1"]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"éée"'], ['"a"', '"abcd"']),
        ({"maxLength": 2}, ['"ab"'], ['"abc"', "1"]),
        ({"type": "integer"}, ["0", "-12"], ["1.5", "007", "1e3"]),
        ({"type": "integer", "minimum": 0}, ["0", "12"], ["-1"]),
        ({"type": "integer", "exclusiveMinimum": 0}, ["1", "12"], ["0", "-1"]),
        ({"type": "number", "minimum": 0}, ["0.5", "1e-3"], ["-0.5", ".5"]),
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
            ['["a", 1]'],
            ['["a"]', '[1, "a"]', '["a", 1, 2]'],
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
        ({"type": "string", "format": "email"}, ['"not checked"'], ["1"]),
    ],
)  # fmt: skip
def test_the_grammar_lets_through_what_is_valid_and_nothing_else(
    schema: Any, valid: list[str], invalid: list[str], smollm: SmolLM
) -> None:
    assert {text: accepts(smollm, schema, text) for text in valid} == dict.fromkeys(valid, True)
    assert {text: accepts(smollm, schema, text) for text in invalid} == dict.fromkeys(
        invalid, False
    )


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{"type": ', "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "at # should be an object"),
        ("false", "at # should be an object"),
        ('{"const": NaN}', "contains NaN"),
        ('{"type": "text"}', "unknown type 'text'"),
        ('{"type": [["a"]]}', "unknown type"),
        ('{"properties": {"a": {"pattern": "^a$"}}}', "at #/properties/a has pattern"),
        ('{"type": "integer", "maximum": 3}', "has maximum"),
        ('{"type": "integer", "minimum": 3}', "has minimum other than 0 or 1"),
        ('{"type": "number", "minimum": 1}', "has minimum other than 0"),
        ('{"type": "array", "uniqueItems": true}', "has uniqueItems"),
        ('{"not": {}}', "has not,"),
        ('{"allOf": [{}, {}]}', "has allOf"),
        ('{"type": "string", "minItems": 3}', "has minItems"),
        ('{"properties": {}, "anyOf": []}', "has properties"),
        (
            '{"type": "object", "required": ["a"]}',
            "requires 'a', which is not among its properties",
        ),
        ('{"$ref": "#/$defs/x"}', "refers to '#/$defs/x', which is not in the schema"),
        ('{"$ref": "https://a.example/x"}', "which is outside the schema"),
        ('{"type": "string", "maxLength": 1000000}', "over 2000 length"),
        ('{"type": "string", "minLength": 3, "maxLength": 2}', "asks for 3 to 2 length"),
        ('{"enum": []}', "allows no value"),
        ('{"enum": ["a"], "type": "integer"}', "allows no value"),
        ('{"prefixItems": [{}], "minItems": 2}', "prefixItems of another length"),
    ],
)
def test_what_cannot_be_enforced_is_refused_and_named(schema: str, reason: str) -> None:
    with pytest.raises(GrammarError) as refused:
        json_schema_to_gbnf(schema)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


KEYWORDS = {
    *("type", "const", "enum", "anyOf", "oneOf", "allOf", "$ref", "format", "minLength"),
    *("maxLength", "minItems", "maxItems", "items", "prefixItems", "minimum", "exclusiveMinimum"),
    *("properties", "required", "additionalProperties", "title", "pattern", "$defs"),
}
WRONG_VALUES = ["null", "true", "-1", "0.5", "1e400", "9" * 5000, '"x"', '["x"]', '{"x": "x"}']


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_a_keyword_with_a_wrong_value_gives_a_grammar_or_one_line_that_names_the_place(
    keyword: str, smollm: SmolLM
) -> None:
    types = ("", '"type": "integer", ', '"type": ["string", "array", "number"], ')
    for wrong, kind in itertools.product(WRONG_VALUES, types):
        schema = f'{{"properties": {{"a": {{{kind}"{keyword}": {wrong}}}}}}}'
        try:
            Grammar(json_schema_to_gbnf(schema), smollm.vocab_pointer, 0)
        except GrammarError as refused:
            line = str(refused)
            assert line.startswith("the JSON schema at #/properties/a"), schema[:99]
            assert "\n" not in line
            assert len(line) < 250


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ('{"const": 1e400}', "at #/const contains a number that is too large"),
        ('{"enum": [1, [-1e400]]}', "at #/enum contains a number that is too large"),
        (f'{{"const": {"7" * 5000}}}', "at #/const contains a number that is too large"),
        (f'{{"minimum": {"7" * 5000}}}', "at # has minimum other than 0 or 1"),
        ('{"exclusiveMinimum": 0, "minimum": "x"}', "at #/minimum should be a number"),
        ('{"type": "number", "minimum": false}', "at #/minimum should be a number"),
        ('{"format": ["date"]}', "at #/format should be a string"),
        ('{"minItems": -1}', "at #/minItems should be an integer from 0 on"),
        ('{"minLength": true}', "at #/minLength should be an integer from 0 on"),
        ('{"items": false, "minItems": 2}', "at # asks for 2 items and allows none"),
        ('{"type": ["integer", "number"], "exclusiveMinimum": 0}', "at # has exclusiveMinimum"),
        ('{"const": "\\ud800"}', "at #/const contains half of a surrogate pair"),
        ('{"properties": {"\\udfff": {}}}', "contains half of a surrogate pair"),
        ('{"properties": {"a\\nb/c": {"not": {}}}}', r"at #/properties/a\nb~1c has not,"),
        ('{"a\\nb": 1}', r"at # has a\nb,"),
        (f'{{"properties": {{"{"n" * 9999}": {{"not": {{}}}}}}}}', "nnn has not,"),
        (f'{{"type": "{"t" * 9999}"}}', "unknown type"),
        ('{"$ref": "#/allOf/-1", "allOf": [{}]}', "at # has allOf"),
        ('{"properties": {"a": {"$ref": "#/x/-1"}}, "x": []}', "at # has x"),
        ('{"items": {"$ref": "#/$defs/-1"}, "$defs": [{}]}', "at #/items refers to '#/$defs/-1'"),
    ],
)
def test_what_is_wrong_is_named_by_its_place_in_one_short_line(schema: str, line: str) -> None:
    with pytest.raises(GrammarError) as refused:
        json_schema_to_gbnf(schema)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


def test_a_schema_that_only_holds_itself_is_refused(smollm: SmolLM) -> None:
    loop = json_schema_to_gbnf('{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}')
    with pytest.raises(GrammarError, match="left recursion"):
        Grammar(loop, smollm.vocab_pointer, 0)
