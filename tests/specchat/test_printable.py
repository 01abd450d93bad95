import pytest

from specchat.printable import one_line, printable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x07", "␛[31mred␇"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        ("a\x00b\x7fc", "a␀b␡c"),
        ("abc\u202etxt.exe", "abc⟨U+202E⟩txt.exe"),
        ("one\u2028two\u2029three\x85four", "one\ntwo\nthree\nfour"),
        ("page\x0cbreak\x0b", "page␌break␋"),
        ("dos\r\nunix\n", "dos\nunix\n"),
        ("over\rwritten", "over␍written"),
        ("\udc80", "\ufffd"),
    ],
)
def test_whatever_a_terminal_would_obey_becomes_visible(raw: str, shown: str) -> None:
    assert printable(raw) == shown


@pytest.mark.parametrize(
    "text", ["tiếng Việt", "e\u0302\u0301", "漢字\tтекст\n", "👩‍👩‍👧", "[bold]x[/]"]
)
def test_text_of_any_script_is_left_alone(text: str) -> None:
    assert printable(text) == text


def test_a_title_is_one_line() -> None:
    assert one_line("  a\n\tb \x1b c\u2028d ") == "a b ␛ c d"
