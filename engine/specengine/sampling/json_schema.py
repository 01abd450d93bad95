"""JSON schemas as llguidance takes them, and the place of what it cannot enforce.

Whatever is accepted is enforced: an answer that follows the schema is valid under it. Annotations
and formats that no standard knows are left out, as the standard says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from llguidance import LLMatcher

from specengine.core.errors import GrammarError

# Of white space: models that may write any amount of it run away in it.
_OPTIONS = {"x-guidance": {"whitespace_pattern": r" |\n[ \t]{0,20}"}}

_SHOWN = 80  # characters of what a person wrote, in an error
_REASON = 160  # of llguidance's reason

# Where schemas lie inside of a schema.
_ONE = ("items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SHARED = ("$schema", "$defs", "definitions")  # by schemas anywhere inside
_NAMED = ("properties", "patternProperties", "$defs", "definitions")

_DAY = "(0[1-9]|1[0-9]|2[0-8])"  # that every month has
_LATE = "((0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
_FOURTH = "(0[48]|[2468][048]|[13579][26])"  # multiples of four, but 00
_LEAP_DAY = f"([0-9][0-9]{_FOURTH}|({_FOURTH}|00)00)-02-29"
_DATE = f"([0-9]{{4}}-((0[1-9]|1[0-2])-{_DAY}|{_LATE})|{_LEAP_DAY})"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_CLOCK}:[0-5][0-9](\.[0-9]+)?(Z|[-+]{_CLOCK})"
_A, _B = "[a-zA-Z0-9]", "[a-zA-Z0-9-]"
_LABEL = f"{_A}({_A}|{_B}{_A}|{_B}{_B}{_A}|{_B}({_A}{_B}|-{_A}){_B}{{0,58}}{_A})?"
_WRITTEN_OUT: dict[
    str, dict[str, Any]
] = {  # formats that llguidance knows, without their rare cases
    "date": {"pattern": f"^{_DATE}$"},
    "time": {"pattern": f"^{_TIME}$"},
    "date-time": {"pattern": f"^{_DATE}T{_TIME}$"},
    "hostname": {"pattern": rf"^{_LABEL}(\.{_LABEL})*$", "maxLength": 253},
}
_STANDARD = frozenset(  # formats that have to be enforced or refused
    {
        *("duration", "email", "ipv4", "ipv6", "uri", "uuid", "idn-email", "idn-hostname", "iri"),
        *("iri-reference", "json-pointer", "regex", "relative-json-pointer", "uri-reference"),
        "uri-template",
    }
)

# White space as ECMAScript has it, which is not quite what regular expressions in Rust have.
_SPACE = (
    r"\t\n\x0b\x0c\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}"
    r"\u{feff}"
)
_PATTERN_PART = re.compile(r"\\.|\[\^?\]?|\]|.", re.DOTALL)


def schema_as_lark(text: str) -> str:
    """The JSON schema `text` as a grammar in llguidance's variant of Lark.

    Raises GrammarError, with the place in the schema, for what is no schema or cannot be enforced.
    """
    schema = _parsed(text)
    if reason := _refusal(schema):
        path = _place(schema, schema, _kind(reason), "#")
        raise GrammarError(f"the JSON schema at {_shown(path)} {_told(reason)}")
    return f"start: %json {json.dumps(schema | _OPTIONS)}"


def _parsed(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(
            text, parse_int=_integer, parse_float=_number, parse_constant=_refuse_constant
        )
        if schema is True:
            schema = {}
        if not isinstance(schema, dict):
            raise GrammarError("the JSON schema should be an object")
        json.dumps(schema, ensure_ascii=False).encode()
        _write_out(schema, "#")
        return schema
    except json.JSONDecodeError as error:
        raise GrammarError(f"the JSON schema is not JSON: {error}") from error
    except UnicodeEncodeError as error:
        raise GrammarError("the JSON schema contains half of a surrogate pair") from error
    except RecursionError as error:
        raise GrammarError("the JSON schema is nested too deeply") from error


def _integer(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise _too_large(digits)
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if abs(number) == float("inf"):
        raise _too_large(digits)
    return number


def _too_large(digits: str) -> GrammarError:
    return GrammarError(f"the JSON schema contains a number that is too large: {_shown(digits)}")


def _refuse_constant(name: str) -> None:
    raise GrammarError(f"the JSON schema contains {name}, which is not JSON")


def _refusal(schema: dict[str, Any]) -> str:
    """Why llguidance does not take `schema`; empty where it does."""
    return LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(json.dumps(schema)))


def _inside(schema: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The schemas inside of `schema`: the way there, and in what they lie under which key."""
    for key in _ONE:
        if isinstance(schema.get(key), dict):
            yield key, schema, key
    for key in _LISTED:
        if isinstance(listed := schema.get(key), list):
            for i in range(len(listed)):
                yield f"{key}/{i}", listed, i
    for key in _NAMED:
        if isinstance(named := schema.get(key), dict):
            for name in named:
                yield f"{key}/{name.replace('~', '~0').replace('/', '~1')}", named, name


def _write_out(schema: Any, path: str) -> None:
    """Put in other words what llguidance takes too lightly in `schema`, or refuse it."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema and "$id" in schema:  # whose meaning changed between drafts
        raise GrammarError(f"the JSON schema at {_shown(path)} has $id beside $ref")
    if schema.get("uniqueItems") is False:
        del schema["uniqueItems"]
    if isinstance(pattern := schema.get("pattern"), str):
        schema["pattern"] = _ecma(pattern, path)
    for way, where, key in _inside(schema):
        _write_out(where[key], f"{path}/{way}")
    kind = schema.get("format")
    if isinstance(kind, str) and kind not in _STANDARD:
        del schema["format"]
        if kind in _WRITTEN_OUT:
            schema["allOf"] = [*schema.get("allOf", []), _WRITTEN_OUT[kind]]


def _ecma(pattern: str, path: str) -> str:
    r"""`pattern` with \s and \S written out."""
    result, in_class = [], False
    for part in _PATTERN_PART.findall(pattern):
        if part.startswith("["):
            in_class = True
        elif part == "]":
            in_class = False
        if part == r"\s":
            part = _SPACE if in_class else f"[{_SPACE}]"
        elif part == r"\S":
            if in_class:
                raise GrammarError(
                    rf"the JSON schema at {_shown(path)} has a pattern with \S between brackets"
                )
            part = f"[^{_SPACE}]"
        result.append(part)
    return "".join(result)


def _place(root: dict[str, Any], schema: dict[str, Any], reason: str, path: str) -> str:
    """The way to the innermost schema that has this fault by itself."""
    shared: dict[str, Any] = {key: root[key] for key in _SHARED if key in root}
    for way, where, key in _inside(schema):
        each = where[key]
        if not isinstance(each, dict):
            continue
        if _kind(_refusal(shared | each)) == reason:
            return _place(root, each, reason, f"{path}/{way}")
    return path


def _kind(reason: str) -> str:
    """What stays of a reason wherever in a text it applies."""
    return re.sub(r"\d+", "", reason)


def _told(reason: str) -> str:
    """llguidance's reason in one line, and in a person's words where it speaks of itself."""
    if found := re.match(r"Unimplemented keys: \[(.*)\]", reason):
        return f"has {_shown(found[1], _REASON)}, which cannot be enforced"
    if reason.startswith("oneOf constraints"):
        return (
            "has oneOf, whose alternatives may overlap: use anyOf, or let a const tell them apart"
        )
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    # Of a regular expression the first line says what it is about, the last one why.
    return "cannot be used: " + _shown(" ".join(dict.fromkeys([lines[0], lines[-1]])), _REASON)


def _shown(text: str, most: int = _SHOWN) -> str:
    """What a person wrote, in one line that stays short: of a way, its end."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return (
        text if len(text) <= most else f"…{text[-most:]}" if text[0] == "#" else text[:most] + "…"
    )
