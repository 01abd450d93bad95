from specchat.tui.markdown.splitter import Splitter


def segments(text: str) -> list[str]:
    splitter = Splitter()
    return [segment.source for segment in [*splitter.feed(text), *splitter.close()]]


def test_a_paragraph_closes_at_a_blank_line() -> None:
    splitter = Splitter()
    assert splitter.feed("one\ntwo\n") == []
    assert splitter.tail == "one\ntwo\n"
    assert [closed.source for closed in splitter.feed("\nthree")] == ["one\ntwo"]
    assert splitter.tail == "three"


def test_each_item_of_a_list_closes_where_the_next_begins() -> None:
    text = "- a\n- b\n  - nested\n\n  more of b\n- c"
    assert segments(text) == ["- a", "- b\n  - nested\n\n  more of b", "- c"]


def test_a_fence_closes_at_its_own_mark_alone() -> None:
    text = "````py\n```\n\n~~~\n````\nafter"
    assert segments(text) == ["````py\n```\n\n~~~\n````", "after"]


def test_an_indented_mark_is_code_and_closes_no_fence() -> None:
    assert segments("```\n    ```\ncode\n```") == ["```\n    ```\ncode\n```"]
    assert segments("```\n\t```\ncode\n```") == ["```\n\t```\ncode\n```"]
    assert segments("```\ncode\n   ```\nafter") == ["```\ncode\n   ```", "after"]


def test_a_fence_closes_whatever_space_follows_its_mark() -> None:
    assert segments("```\ncode\n``` \t\nafter") == ["```\ncode\n``` \t", "after"]


def test_a_fence_interrupts_a_paragraph_and_an_item() -> None:
    assert segments("text\n```\ncode\n```") == ["text", "```\ncode\n```"]
    assert segments("1. item\n```\ncode\n```\n2. next") == ["1. item", "```\ncode\n```", "2. next"]


def test_an_indented_fence_stays_inside_its_item() -> None:
    text = "1. item\n   ```\n   code\n\n   more\n   ```\n2. next"
    assert segments(text) == ["1. item\n   ```\n   code\n\n   more\n   ```", "2. next"]


def test_a_heading_is_one_line() -> None:
    assert segments("# Title\ntext") == ["# Title", "text"]


def test_a_sentence_may_begin_a_line_with_a_number_or_be_a_sign_alone() -> None:
    assert segments("It was in\n2024. Then it ended.") == ["It was in\n2024. Then it ended."]
    assert segments("5\n+\n3") == ["5\n+\n3"]
    assert segments("A list:\n1. one") == ["A list:", "1. one"]


def test_lazy_lines_belong_to_their_item() -> None:
    assert segments("- one\ngoes on\nafter") == ["- one\ngoes on\nafter"]


def test_only_items_without_a_blank_line_between_stand_close() -> None:
    splitter = Splitter()
    closed = [*splitter.feed("text\n- a\n- b\n\n- c\nend\n\nlast"), *splitter.close()]
    assert [segment.loose for segment in closed] == [True, True, False, True, True]


def test_the_tail_of_a_fence_names_its_language() -> None:
    splitter = Splitter()
    splitter.feed("```python title=x\nprint(")
    assert splitter.in_fence
    assert splitter.tail == "python title=x\nprint("
