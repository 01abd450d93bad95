"""JSON Schema to GBNF, so that an answer cannot violate the schema.

Whatever the grammar lets through is valid: a keyword that it cannot enforce is refused, not
ignored (one exception: `oneOf` is read as `anyOf`). Where a schema leaves something open the
grammar may be stricter: properties come in the schema's order, those it does not name are left out,
and whitespace is limited, since small models run away in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from specengine.core.errors import GrammarError

_SHARED_RULES = {
    "space": r'| " " | "\n" [ \t]{0,20}',
    "hex": "[0-9a-fA-F]",
    # No surrogates: a pair of them would be one character and count as two.
    "escaped": r'["\\/bfnrt] | "u" ([0-9a-cefA-CEF] hex{3} | [dD] [0-7] hex{2})',
    "char": r'[^"\\\x00-\x1F\x7F] | "\\" escaped',
    "string": r'"\"" char* "\""',
    "natural": '"0" | [1-9] [0-9]{0,15}',
    "positive": "[1-9] [0-9]{0,15}",
    "integer": '"-"? natural',
    "fraction": '("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?',
    "unsigned": "natural fraction",
    "number": "integer fraction",
    "boolean": '"true" | "false"',
    "null": '"null"',
    "member": 'string ":" space value space',
    "object": '"{" space (member ("," space member)*)? "}"',
    "array": '"[" space (value space ("," space value space)*)? "]"',
    "value": "object | array | string | number | boolean | null",
    "day": '"0" [1-9] | "1" [0-9] | "2" [0-8]',  # that every month has
    "day-of-month": '("0" [1-9] | "1" [0-2]) "-" day | ("0" [13-9] | "1" [0-2]) "-" ("29" | "30") |'
    ' ("0" [13578] | "1" [02]) "-31"',
    "fourth": '"0" [48] | [2468] [048] | [13579] [26]',  # multiples of four, but 00
    "leap-year": '[0-9] [0-9] fourth | ("00" | fourth) "00"',
    "date": '[0-9]{4} "-" day-of-month | leap-year "-02-29"',
    "clock": '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]',
    "time": 'clock ":" [0-5] [0-9] ("." [0-9]{1,6})? ("Z" | [-+] clock)',
    "date-time": 'date "T" time',
    "uuid": 'hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}',
}

_ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "$comment", "$defs", "definitions", "title", "description"),
        *("default", "examples", "deprecated", "readOnly", "writeOnly"),
    }
)
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})  # others are annotations too
_KEYWORDS = {  # that describe a type, and can be enforced
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "format"}),
    "integer": frozenset({"minimum", "exclusiveMinimum"}),
    "number": frozenset({"minimum", "exclusiveMinimum"}),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_SHAPES = {  # what the value of a keyword has to be
    **dict.fromkeys(("$ref", "format"), "a string"),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "enum", "required", "prefixItems"), "an array"),
    "properties": "an object",
    "additionalProperties": "a schema",
    "items": "a schema",
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), "an integer from 0 on"),
    **dict.fromkeys(("minimum", "exclusiveMinimum"), "a number"),
}
_MOST_REPEATS = 2000  # llama.cpp's limit
_SHOWN = 80  # characters of what a person wrote, in an error


def json_schema_to_gbnf(text: str) -> str:
    """The grammar of the JSON values that are valid under the schema `text`.

    Raises GrammarError, naming the place in the schema that cannot be used.
    """
    try:
        schema = json.loads(text, parse_int=_integer_or_infinity, parse_constant=_refuse_constant)
        return _Converter(schema).gbnf()
    except json.JSONDecodeError as error:
        raise GrammarError(f"the JSON schema is not JSON: {error}") from error
    except RecursionError as error:
        raise GrammarError("the JSON schema is nested too deeply") from error


def _integer_or_infinity(digits: str) -> float:
    """Python reads no longer integers; infinity is refused where it is used, by its place."""
    return int(digits) if len(digits) < sys.int_info.str_digits_check_threshold else float(digits)


def _refuse_constant(name: str) -> None:
    raise GrammarError(f"the JSON schema contains {name}, which is not JSON")


class _Converter:
    """Rules grow as the schema is walked; every visit returns a GBNF expression."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._rules: dict[str, str] = {}
        self._refs: dict[str, str] = {}

    def gbnf(self) -> str:
        self._rules["root"] = self._visit(self._schema, "#")
        return "\n".join(
            f"{name} ::= {body}" for name, body in (_SHARED_RULES | self._rules).items()
        )

    def _visit(self, schema: Any, at: str) -> str:
        if schema is True or schema == {}:
            return "value"
        _check_shapes(schema, at)
        keywords = schema.keys() - _ANNOTATIONS
        if "$ref" in schema:
            _only(keywords, {"$ref"}, at)
            return self._ref(schema["$ref"], at)
        for union in ("anyOf", "oneOf", "allOf"):
            if union in schema:
                _only(keywords, {union}, at)
                return self._union(union, schema[union], at)
        types = schema.get("type", _implied_types(keywords))
        types = types if isinstance(types, list) else [types]
        for name in types:
            if not isinstance(name, str) or name not in _KEYWORDS:
                raise _refused(f"{at}/type", f"has the unknown type '{_shown(name)}'")
        for values in ("const", "enum"):
            if values in schema:
                _only(keywords, {values, "type"}, at)
                listed = [schema["const"]] if values == "const" else schema["enum"]
                return _constants(listed, types, f"{at}/{values}")
        if not types:
            _only(keywords, set(), at)
            return "value"
        _only(keywords, {"type"}.union(*(_KEYWORDS[name] for name in types)), at)
        return _either(self._type(name, schema, at) for name in types)

    def _type(self, name: str, schema: dict[str, Any], at: str) -> str:
        visitors: dict[str, Callable[[dict[str, Any], str], str]] = {
            "object": self._object,
            "array": self._array,
            "string": _string,
            "integer": _integer,
            "number": _number,
        }
        if schema.keys() & _KEYWORDS[name]:
            return visitors[name](schema, at)
        return name

    def _rule(self, body: str) -> str:
        name = f"rule{len(self._rules)}"
        self._rules[name] = body
        return name

    def _ref(self, ref: str, at: str) -> str:
        if ref not in self._refs:
            found = self._resolve(ref, at)
            name = self._refs[ref] = self._rule("")  # named first: a schema may hold itself
            self._rules[name] = self._visit(found, ref)
        return self._refs[ref]

    def _resolve(self, ref: str, at: str) -> Any:
        if not (ref == "#" or ref.startswith("#/")):
            raise _refused(at, f"refers to '{_shown(ref)}', which is outside the schema")
        found = self._schema
        for part in ref.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            try:
                found = found[_index(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise _refused(
                    at, f"refers to '{_shown(ref)}', which is not in the schema"
                ) from None
        return found

    def _union(self, kind: str, schemas: list[Any], at: str) -> str:
        if not schemas or (kind == "allOf" and len(schemas) > 1):
            raise _unenforceable(kind, at)
        return _either(self._visit(each, f"{at}/{kind}/{i}") for i, each in enumerate(schemas))

    def _object(self, schema: dict[str, Any], at: str) -> str:
        properties: dict[str, Any] = schema.get("properties", {})
        required = schema.get("required", [])
        for name in required:
            if not isinstance(name, str):
                raise _refused(f"{at}/required", "should name properties")
            if name not in properties:
                raise _refused(at, f"requires '{_shown(name)}', which is not among its properties")
        if properties:
            return self._members(
                [
                    (self._member(name, value, f"{at}/properties"), name in required)
                    for name, value in properties.items()
                ]
            )
        if schema.get("additionalProperties") is False:
            return '"{" space "}"'
        others = schema.get("additionalProperties", True)
        value = self._visit(others, f"{at}/additionalProperties")
        member = self._rule(f'string ":" space {value} space')
        return self._rule(f'"{{" space ({member} ("," space {member})*)? "}}"')

    def _member(self, name: str, schema: Any, at: str) -> str:
        at = f"{at}/{name.replace('~', '~0').replace('/', '~1')}"
        value = self._visit(schema, at)
        return self._rule(f'{_literal(name, at)} ":" space {value} space')

    def _members(self, members: list[tuple[str, bool]]) -> str:
        """An object of these members in order; each is a rule and whether it has to be there."""
        tail = ""  # what may follow when some member is there already
        head: list[str] = []  # what may follow when none is yet
        for member, required in reversed(members):
            head = [f"{member} {tail}"] if required else [f"{member} {tail}", *head]
            tail = self._rule(
                f'"," space {member} {tail}' if required else f'("," space {member})? {tail}'
            )
        optional = "" if any(required for _, required in members) else "?"
        return self._rule(f'"{{" space ({" | ".join(head)}){optional} "}}"')

    def _array(self, schema: dict[str, Any], at: str) -> str:
        least, most = _bounds(schema, "Items", at)
        if "prefixItems" in schema:
            prefix = schema["prefixItems"]
            if not least <= len(prefix) <= (len(prefix) if most is None else most):
                raise _unenforceable("prefixItems of another length than minItems and maxItems", at)
            items = [self._visit(s, f"{at}/prefixItems/{i}") for i, s in enumerate(prefix)]
            return self._rule(
                '"[" space ' + ' "," space '.join(f"{i} space" for i in items) + ' "]"'
            )
        if schema.get("items") is False:
            most = 0
            if least:
                raise _refused(at, f"asks for {least} items and allows none")
        if most == 0:
            return '"[" space "]"'
        item = self._rule(self._visit(schema.get("items", True), f"{at}/items") + " space")
        fewest = max(least - 1, 0)
        others = f'("," space {item}){_repeat(fewest, None if most is None else most - 1)}'
        return self._rule(f'"[" space ({item} {others}){"" if least else "?"} "]"')


def _string(schema: dict[str, Any], at: str) -> str:
    if schema.get("format") in _FORMATS:
        if schema.keys() & {"minLength", "maxLength"}:
            raise _unenforceable("format beside a length", at)
        return rf'"\"" {schema["format"]} "\""'
    return rf'"\"" char{_repeat(*_bounds(schema, "Length", at))} "\""'


def _integer(schema: dict[str, Any], at: str) -> str:
    least = schema.get("minimum", 0)
    if "exclusiveMinimum" in schema:
        above = schema["exclusiveMinimum"]
        least = max(schema.get("minimum", above + 1), above + 1)
    if least not in (0, 1):
        raise _unenforceable("minimum other than 0 or 1", at)
    return "natural" if least == 0 else "positive"


def _number(schema: dict[str, Any], at: str) -> str:
    if "exclusiveMinimum" in schema:
        raise _unenforceable("exclusiveMinimum", at)
    if schema["minimum"] != 0:
        raise _unenforceable("minimum other than 0", at)
    return "unsigned"


def _bounds(schema: dict[str, Any], what: str, at: str) -> tuple[int, int | None]:
    """`minWhat` and `maxWhat` of the schema."""
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    if max(least, most or 0) > _MOST_REPEATS:
        raise _refused(at, f"asks for over {_MOST_REPEATS} {what.lower()}")
    if most is not None and least > most:
        raise _refused(at, f"asks for {least} to {most} {what.lower()}")
    return least, most


def _repeat(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _constants(values: list[Any], types: list[Any], at: str) -> str:
    if types:
        values = [value for value in values if any(_is_a(value, name) for name in types)]
    if not values:
        raise _refused(at, "allows no value")
    return _either(_literal(value, at) for value in values)


def _is_a(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _PYTHON_TYPES.get(name, ()))


def _literal(value: Any, at: str) -> str:
    """A GBNF literal for the JSON text of `value`, which stands `at` some place of the schema."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        raise _refused(at, "contains half of a surrogate pair, which is not a character") from None
    except ValueError:
        raise _refused(at, "contains a number that is too large") from None
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _either(options: Any) -> str:
    options = list(dict.fromkeys(options))
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def _implied_types(keywords: Any) -> Any:
    """The type that a schema without `type` must mean, by its keywords; none where it is open."""
    return [name for name, known in _KEYWORDS.items() if keywords & known][:1]


def _only(keywords: Any, enforced: set[str], at: str) -> None:
    if unknown := sorted(keywords - enforced):
        raise _unenforceable(unknown[0], at)


def _check_shapes(schema: Any, at: str) -> None:
    """Raises GrammarError where `schema`, or the value of one of its keywords, has a wrong type."""
    if not isinstance(schema, dict):
        raise _refused(at, "should be an object")
    for keyword in schema.keys() & _SHAPES.keys():
        value, shape = schema[keyword], _SHAPES[keyword]
        fits = {
            "a string": isinstance(value, str),
            "an array": isinstance(value, list),
            "an object": isinstance(value, dict),
            "a schema": isinstance(value, dict | bool),
            "a number": _is_a(value, "number"),
            "an integer from 0 on": _is_a(value, "integer") and value >= 0,
        }
        if not fits[shape]:
            raise _refused(f"{at}/{keyword}", f"should be {shape}")


def _index(key: str) -> int:
    """A place in an array as a reference writes it. Raises ValueError."""
    if not (key.isascii() and key.isdecimal()):
        raise ValueError
    return int(key)


def _unenforceable(what: str, at: str) -> GrammarError:
    return _refused(at, f"has {_shown(what)}, which a grammar cannot enforce: leave it out")


def _refused(at: str, why: str) -> GrammarError:
    """One line that says what is wrong at a place in the schema."""
    return GrammarError(f"the JSON schema at {_shown(at)} {why}")


def _shown(written: Any) -> str:
    """What a person wrote, fit for one line: its end where it is long."""
    text = repr(written)[1:-1] if isinstance(written, str) else repr(written)
    return text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"
