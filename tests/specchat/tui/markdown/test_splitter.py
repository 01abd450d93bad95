import pytest

from specchat.tui.markdown.splitter import Splitter


@pytest.mark.parametrize(
    "segments",
    [
        pytest.param(["# Title", "text"], id="a heading is one line"),
        pytest.param(
            ["- a", "- b\n  - nested\n\n  more of b", "- c"], id="items close at the next one"
        ),
        pytest.param(["- one\ngoes on\nafter"], id="lazy lines belong to their item"),
        pytest.param(["````py\n```\n\n~~~\n````", "after"], id="a fence closes at its own mark"),
        pytest.param(["```\n    ```\ncode\n```"], id="an indented mark is code"),
        pytest.param(["```\n\t```\ncode\n```"], id="a mark behind a tab is code"),
        pytest.param(["```\ncode\n   ```", "after"], id="a mark may be indented a little"),
        pytest.param(["```\ncode\n``` \t", "after"], id="space may follow the mark"),
        pytest.param(["text", "```\ncode\n```"], id="a fence interrupts a paragraph"),
        pytest.param(["1. item", "```\ncode\n```", "2. next"], id="and an item"),
        pytest.param(
            ["1. item\n   ```\n   code\n\n   more\n   ```", "2. next"],
            id="an indented fence stays inside its item",
        ),
        pytest.param(["It was in\n2024. Then it ended."], id="a line may begin with a number"),
        pytest.param(["5\n+\n3"], id="a line may be a sign alone"),
        pytest.param(["A list:", "1. one"], id="a list begins with 1"),
    ],
)
def test_where_a_segment_closes(segments: list[str]) -> None:
    splitter = Splitter()
    closed = [*splitter.feed("\n".join(segments)), *splitter.close()]
    assert [segment.source for segment in closed] == segments


def test_what_is_not_closed_yet_is_the_tail() -> None:
    splitter = Splitter()
    assert splitter.feed("one\ntwo\n") == []
    assert splitter.tail == "one\ntwo\n"
    assert [closed.source for closed in splitter.feed("\nthree")] == ["one\ntwo"]
    assert splitter.tail == "three"


def test_only_items_without_a_blank_line_between_stand_close() -> None:
    splitter = Splitter()
    closed = [*splitter.feed("text\n- a\n- b\n\n- c\nend\n\nlast"), *splitter.close()]
    assert [segment.loose for segment in closed] == [True, True, False, True, True]


def test_the_tail_of_a_fence_names_its_language() -> None:
    splitter = Splitter()
    splitter.feed("```python title=x\nprint(")
    assert splitter.in_fence
    assert splitter.tail == "python title=x\nprint("
