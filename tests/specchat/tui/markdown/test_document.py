import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from specchat.tui.markdown import Document

ANSWER = """\
# Reversing a list

Walk it **once**; see [the docs](https://docs.python.org "Python").
<div>tags</div> and <think>thoughts</think> stay, and so does \\(x^2\\) & 5 < 6.

- one
- two `code`
  - nested
- three

1. First
   ```python
   def f(x):
       return x
   ```
2. Second

   with more

> quoted
> - inside

| a | b |
|---|---|
| 1 | a long cell |

```js
let x = "1";

// end
```
***
The end.
"""


def of_markdown(text: str) -> Document:
    document = Document()
    document.append(text)
    document.finish()
    return document


def shown(document: Document, width: int = 60) -> list[str]:
    height = document.height(width)
    return [document.row(y).content.plain.rstrip() for y in range(height)]


def test_markdown_becomes_rows() -> None:
    assert shown(of_markdown(ANSWER), 44) == [
        "Reversing a list",
        "",
        "Walk it once; see the docs",
        "(https://docs.python.org Python).",
        "<div>tags</div> and <think>thoughts</think>",
        "stay, and so does \\(x^2\\) & 5 < 6.",
        "",
        "• one",
        "• two code",
        "  ◦ nested",
        "• three",
        "",
        "1. First",
        "    python",
        "    def f(x):",
        "        return x",
        "2. Second",
        "",
        "   with more",
        "",
        "▎ quoted",
        "▎",
        "▎ • inside",
        "",
        "a │ b",
        "──┼────────────",
        "1 │ a long cell",
        "",
        " js",
        ' let x = "1";',
        "",
        " // end",
        "",
        "─" * 44,
        "",
        "The end.",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_streamed_in_any_pieces_it_ends_as_if_it_came_whole(seed: int) -> None:
    rng = random.Random(seed)
    document = Document()
    cuts = sorted(rng.sample(range(len(ANSWER)), 60))
    for start, end in pairwise([0, *cuts, len(ANSWER)]):
        document.append(ANSWER[start:end])
        if rng.random() < 0.5:
            shown(document, rng.choice([30, 60]))
    document.finish()
    assert shown(document) == shown(of_markdown(ANSWER))


def test_the_open_end_is_shown_as_it_came() -> None:
    document = Document()
    document.append("Done.\n\nA **bold")
    assert shown(document) == ["Done.", "", "A **bold"]
    document.append("** end\n\n")
    assert shown(document) == ["Done.", "", "A bold end"]


def test_an_open_fence_looks_as_it_will_when_it_closes() -> None:
    document = Document()
    document.append("```python\nx = 1\n")
    rows = [document.row(y) for y in range(document.height(40))]
    document.append("```\n")
    closed = [document.row(y) for y in range(document.height(40))]
    assert [row.content.plain for row in rows] == [" python", " x = 1"]
    assert [(row.content.plain, row.fill) for row in rows] == [
        (row.content.plain, row.fill) for row in closed
    ]


def test_an_open_fence_shows_every_line_that_came() -> None:
    document = Document()
    document.append("```\n")
    for number in range(5):
        document.append(f"line {number}\n")
        assert shown(document) == [f" line {n}" for n in range(number + 1)]


@pytest.mark.parametrize(
    "text",
    [
        "[ref]: http://example.com/x",
        "| a | b |\n|---|---|\n| 1 | 2 | dropped |",
        "![alt text](http://example.com/picture.png)",
        "<!-- remark --> &amp; <br/> <https://example.com>",
        "[name](javascript:alert(1))",
        "a<b>c</b>d\n<details>\n<summary>x</summary>\n\ntext</details>",
        "    indented code\n\n    and more",
        "\\[ \\frac{a}{b} \\]",
        "```\nnever closed",
        "~~~ruby {x=1}\nputs 1\n~~~",
    ],
)
def test_nothing_is_swallowed(text: str) -> None:
    assert _words(" ".join(shown(of_markdown(text)))) >= _words(text)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("5\n+\n3", ["5", "+", "3"]),
        ("5\n-\n3", ["5", "-", "3"]),
        ("5\n*\n3", ["5", "*", "3"]),
        ("5\n=\n8", ["5", "=", "8"]),
        ("5\n>\n3", ["5", "", ">", "", "3"]),
        ("- a\n-\n- b", ["• a", "-", "• b"]),
        ("1.", ["1."]),
        ("- >", ["• >"]),
        ("> +", ["▎ +"]),
        ("C\n\n#", ["C", "", "#"]),
        ("# C #", ["# C #"]),
        ("2*3*4 = 24, 2**3**2 = 512", ["2*3*4 = 24, 2**3**2 = 512"]),
        ("weight*height*depth, and *this* is **so**", ["weight*height*depth, and this is so"]),
        ("这是**重点**内容", ["这是重点内容"]),
        ("docker run \\\n  -it debian", ["docker run \\", "-it debian"]),
        ("[]() and ![]()", [" () and  ()"]),
        ("|a|b|\n|-|-|\n|1|2|+|", ["|a|b|", "|-|-|", "|1|2|+|"]),
    ],
)
def test_a_mark_that_marks_nothing_is_shown(text: str, rows: list[str]) -> None:
    assert shown(of_markdown(text)) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("`&eacute;` *is* &eacute;", ["&eacute; is é"]),
        ("```html\n&eacute;&lt;\n```", [" html", " &eacute;&lt;"]),
        ("`ip link show &eth0` *runs*", ["ip link show &eth0 runs"]),
        ("*a* &copy b", ["a &copy b"]),
        ("*a* [b](http://c/?d=1&amp;e=2)", ["a b (http://c/?d=1&e=2)"]),
    ],
)
def test_entities_are_read_in_text_and_left_alone_in_code(text: str, rows: list[str]) -> None:
    assert shown(of_markdown(text)) == rows


@pytest.mark.parametrize(
    "text", ["&#x202e;x", "[x](&#x202e;)", "~~~&#x202e;\nx", '[x](y "&#x202e;")']
)
def test_an_entity_turns_no_text_around(text: str) -> None:
    assert "\u202e" not in "".join(shown(of_markdown(text)))


@given(
    st.text(alphabet=st.sampled_from("ab1 \n\t`*_#>-+.|[]()!<&~:=\\\"'{}$éế漢👍\x1b"), max_size=200)
)
def test_any_text_is_shown_whole_and_fits_the_width(text: str) -> None:
    document = of_markdown(text)
    remaining = iter("".join(shown(document, 12)))
    assert all(c in remaining for c in text if c.isalnum() or c in "=.{}$")
    assert all(document.row(y).content.cell_length <= 12 for y in range(document.height(12)))


def test_tables_wrap_into_the_width_and_show_their_source_where_they_cannot() -> None:
    table = "| left | right |\n|---|---|\n| one two three four | five |"
    assert shown(of_markdown(table), 20) == [
        "left         │ right",
        "─────────────┼──────",
        "one two      │ five",
        "three four   │",
    ]
    assert shown(of_markdown(table), 8)[0] == "| left |"


def test_a_table_may_be_narrow() -> None:
    assert shown(of_markdown("|a|b|\n|-|-|\n|1|2|")) == ["a │ b", "──┼──", "1 │ 2"]


def test_a_long_code_line_wraps() -> None:
    rows = shown(of_markdown(f"```\n{'x' * 90}\n```"), 41)
    assert [len(row.strip()) for row in rows] == [40, 40, 10]


def test_a_question_is_no_markdown() -> None:
    assert shown(Document.of_text("# not *markdown*\n\n\n- \x1b[0m")) == [
        "# not *markdown*",
        "",
        "",
        "- ␛[0m",
    ]


def test_links_show_where_they_lead_and_cannot_be_clicked() -> None:
    document = of_markdown("[safe](http://evil.example)")
    assert shown(document) == ["safe (http://evil.example)"]
    assert not any(getattr(span.style, "meta", None) for span in document.row(0).content.spans)


@pytest.mark.parametrize(
    "text", ["- an item of several words\n  that goes on", "words of a line\nand more of them\nx"]
)
def test_a_new_width_holds_for_the_open_end_too(text: str) -> None:
    resized, narrow = Document(), Document()
    resized.append(text)
    narrow.append(text)
    assert shown(resized, 40) != shown(narrow, 10)
    assert shown(resized, 10) == shown(narrow, 10)


def test_each_append_lays_out_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the list or the fence already is."""
    document = Document()
    laid_out = 0
    wrap = Content.wrap

    def counting(self: Content, width: int) -> list[Content]:
        nonlocal laid_out
        laid_out += len(self)
        return wrap(self, width)

    monkeypatch.setattr(Content, "wrap", counting)
    items = "".join(f"- item {i} of a long list\n" for i in range(300))
    fence = "```\n" + "".join(f"line {i} of much code\n" for i in range(600)) + "```\n"
    for piece in re.findall(".{1,7}\n?", items + fence):
        document.append(piece)
        document.height(60)
    assert len(shown(document)) == 901
    assert laid_out < 8 * len(items + fence)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.replace("&amp;", "&")))
