"""A thought above its answer: a label, dim words, nothing where nothing was thought."""

from specchat.tui.markdown.thought import Thought


def rows(thought: Thought, width: int = 20) -> list[str]:
    return [thought.row(y).content.plain.rstrip() for y in range(thought.height(width))]


def test_without_a_thought_there_are_no_rows() -> None:
    assert rows(Thought()) == []


def test_folded_only_the_label_is_seen_and_unfolded_the_words_below_it() -> None:
    thought = Thought()
    thought.label = "Thought for 2 s"
    thought.append("We add.\n")
    assert rows(thought) == ["Thought for 2 s", "We add.", ""]
    thought.is_folded = True
    assert rows(thought) == ["Thought for 2 s", ""]
    thought.is_folded = False
    assert rows(thought) == ["Thought for 2 s", "We add.", ""]
    assert any("dim" in str(span.style) for span in thought.row(1).content.spans)
