"""Templates as hostile programs, and what honest ones rely on."""

from __future__ import annotations

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from specengine.chat import template_limits, template_sandbox
from specengine.chat.template_sandbox import ChatTemplate
from specengine.core.errors import TemplateError

MEGABYTE = "{% set b = 'a' * 1000000 %}"


def render(source: str, **variables: Any) -> str:
    return ChatTemplate(source).render(**variables)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "MAX_SECONDS", 0.3)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
        "{% macro m(n) %}{{ m(n - 1) ~ m(n - 1) if n }}{% endmacro %}{{ m(40) }}",
        "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}",
        MEGABYTE + "{{ range(99999)|map('string')|select('in', b)|list }}",
        "{% for i in range(99999) %}{% block a scoped %}{% for j in range(99999) %}"
        "{% endfor %}{% endblock %}{% endfor %}",
    ],
)
def test_endless_templates_are_ended(source: str) -> None:
    with pytest.raises(TemplateError, match=r"takes longer than 0\.3 s"):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ [1] * 10**9 }}",
        MEGABYTE + "{{ b.replace('', b) }}",
        MEGABYTE + "{{ b|replace('a', b) }}",
        MEGABYTE + "{{ (b|safe).replace('a', b) }}",
        MEGABYTE + "{{ b.join([b] * 1000) }}",
        MEGABYTE + "{{ ([b] * 1000)|join }}",
        MEGABYTE + "{{ ([b] * 1000)|string }}",
        MEGABYTE + "{{ ([b] * 1000)|tojson }}",
        MEGABYTE + "{{ [b] * 1000 }}",
        MEGABYTE + "{% for i in range(1000) %}{{ b }}{% endfor %}",
        MEGABYTE + "{% set c %}{% for i in range(1000) %}{{ b }}{% endfor %}{% endset %}",
        pytest.param(MEGABYTE + "{% set c = " + " ~ ".join(["b"] * 50) + " %}", id="chain of ~"),
        "{{ ('\\n' * 1000000)|indent(1000) }}",
        "{{ [1]|tojson(indent=10**9) }}",
        "{% set n = namespace(x=[0]) %}"
        "{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[0], y=[0]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
        "{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
        "{% set n = namespace(x=(0,)) %}"
        "{% for i in range(60) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ {n.x: 1} }}",
        "{% set n = namespace(x={}) %}{% for i in range(60) %}"
        "{% set n.x = {1: n.x, 2: n.x}.items()|list %}{% endfor %}{{ n.x|sort }}",
        "{% set n = namespace(x={}) %}"
        "{% for i in range(60) %}{% set n.x = dict(a=n.x, b=n.x) %}{% endfor %}{{ n.x == 1 }}",
        "{{ strftime_now('%c' * 1000000) }}",
    ],
)
def test_a_single_step_cannot_make_something_huge(source: str) -> None:
    with pytest.raises(TemplateError, match="makes a text or list longer than"):
        render(source)


@pytest.mark.parametrize(
    "search",
    ["strip(c ~ 'a')", "rfind('ab' ~ b)", "rsplit('ab' ~ b)"],
)
def test_a_search_cannot_take_for_ever(search: str) -> None:
    with pytest.raises(TemplateError, match="searches for too long a text"):
        render(MEGABYTE + "{% set c = 'b' * 1000000 %}{{ b." + search + " }}")
    with pytest.raises(TemplateError, match="searches for too long a text"):
        render(MEGABYTE + "{{ b|trim(b) }}")


def test_nothing_of_a_template_runs_while_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []

    def note(value: object) -> str:
        ran.append(value)
        return str(value)

    monkeypatch.setattr(template_sandbox, "text_of", note)
    monkeypatch.setattr(template_limits, "text_of", note)
    constant = "{{ ['a', 2]|join('-') ~ 'b'|replace('b', 'c') }}"
    template = ChatTemplate(constant + "{% if ['a']|join %}yes{% endif %}")
    assert ran == []
    assert template.render() == "a-2cyes"
    assert ran


@pytest.mark.parametrize(
    "expression",
    [
        "10**4000",
        "(10**1000) * (10**1000)",
        "2**(2**20)",
        "5|round(-1000000000)",
        "('f' * 1000000)|int(base=16)",
    ],
)
def test_numbers_stay_small(expression: str) -> None:
    with pytest.raises(TemplateError, match="more than 4096 bits"):
        render("{{ " + expression + " }}")


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% for i in range(99999) %}{% set n.x = n.x + [b|upper] %}{% endfor %}",
        "{% for i in range(99999) %}{% set n.x = [n.x, b ~ i] %}{% endfor %}",
        pytest.param("{{ [" + "b[1:], " * 200 + "]|length }}", id="slices in one line"),
    ],
)
def test_many_steps_cannot_fill_the_memory(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "MAX_BYTES", 8 * 2**20)
    tracemalloc.start(1)
    try:
        with pytest.raises(TemplateError, match="needs more than 8 MiB"):
            render(MEGABYTE + "{% set n = namespace(x=[1]) %}" + source)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ 'a'.ljust(9) }}",
        "{{ '{:9}'.format(1) }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '%d' % 1 }}",
        "{{ 'a'|center(9) }}",
        "{{ (1).to_bytes(9, 'big') }}",
        "{{ lipsum(1) }}",
        "{{ range(10**9)|list }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        pytest.param("{{ " + "(" * 5000 + ")" * 5000 + " }}", id="deep parentheses"),
        "{% include 'other' %}",
        "{{ 1 / 0 }}",
        "{{ nothing.at.all }}",
        "{{ namespace() }}",
        "{% if %}",
        pytest.param("a" * 200_001, id="a long source"),
    ],
)
def test_what_is_not_offered_or_wrong_is_one_line(source: str) -> None:
    with pytest.raises(TemplateError) as error:
        render(source, messages=[])
    assert str(error.value).startswith("the chat template ")
    assert "\n" not in str(error.value)


def test_a_wrong_template_is_told_with_its_line() -> None:
    with pytest.raises(TemplateError, match="not valid: line 2: "):
        render("\n{% wrong %}")


def test_a_refusal_says_why() -> None:
    with pytest.raises(TemplateError, match=r"refuses this: Roles must alternate$"):
        render("{{ raise_exception('Roles\n must alternate') }}")


def test_prompts_are_rendered_side_by_side_and_each_has_limits_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_limits, "MAX_BYTES", 3_000_000)
    template = ChatTemplate(MEGABYTE + "{% set c = b ~ 1 %}{{ meet() }}")
    meet = threading.Barrier(2, timeout=30)

    def each(n: int) -> str:
        return template.render(meet=lambda: f"{n if meet.wait() >= 0 else ''}")

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(each, range(2))) == ["0", "1"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% if true %}\n  {% set a = 1 %}\nx\n{% endif %}\ny", "x\ny"),
        ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{% generation %}answer{% endgeneration %}", "answer"),
        ("{{ {'a': '<ế>', 'b': [1, none, true]}|tojson }}", '{"a": "<ế>", "b": [1, null, true]}'),
        ("{{ {'a': [1]}|tojson(indent=1) }}", '{\n "a": [\n  1\n ]\n}'),
        ("{{ ' a '|trim ~ 1 ~ none ~ [1, 'a'] }}", "a1None[1, 'a']"),
        ("{{ 'a,b'.split(',')[1].replace('b', 'c') }}{{ '-'.join(['x', 'y']) }}", "cx-y"),
        ("{% for m in messages %}{{ 'ab'.replace('a', m.role) }}{% endfor %}", "userbxb"),
        ("{% for m in messages %}{{ loop.index }}{{ loop.last }}{% endfor %}", "1False2True"),
        ("{{ 1 + 2 + 3 - (4 + 5) }}{{ ['a'] + ['b'] + [1] }}", "-3['a', 'b', 1]"),
        ("{{ '" + "' + '".join("abcdefghijklmnopqrst") + "' }}", "abcdefghijklmnopqrst"),
        ("{% set c %}{{ 1 }} a {% endset %}{{ c|trim }}{{ '-x-'.strip('-') }}", "1 ax"),
        ("{{ messages[1:]|length }}{{ 2.567|round(1) }}{{ (1, 2)[0] }}", "12.61"),
        ("{{ ['x', 'y']|join(', ') }}{{ [{'n': 1}]|join(attribute='n') }}", "x, y1"),
        ("{{ 'a\nb'|indent(2) }}{{ 7 % 2 }}{{ 3 * 'ab' }}{{ 2 ** 5 }}", "a\n  b1ababab32"),
        ("{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='n')|list }}", "[1]"),
        ("{{ missing }}{{ '<b>' }}{{ missing is defined }}", "<b>False"),
        ("{% set n = namespace(a=1) %}{% set n.a = n.a + 1 %}{{ n.a }}", "2"),
        ("{{ (strftime_now('%Y')|int > 2000) and (strftime_now('%d %b')|length == 6) }}", "True"),
    ],
)
def test_honest_templates_have_what_they_use(source: str, expected: str) -> None:
    assert render(source, messages=[{"role": "user", "n": 1}, {"role": "x", "n": 2}]) == expected
