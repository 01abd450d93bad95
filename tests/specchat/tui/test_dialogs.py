"""Choosing models and chats, by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import HelpPanel, OptionList

from specchat.models.registry import Model, Profile, Registry
from specchat.models.scan import Found
from specchat.tui.screens.chats import ChatsDialog
from specchat.tui.screens.dialog import Explanation
from specchat.tui.screens.first_run import FirstRunDialog
from specchat.tui.screens.profiles import FoundDialog, ProfilesDialog, profile_of
from support.chat_app import Chat, StartChat
from support.fake_runtime import FakeRuntime, Script

FOUND = Found(Path("/models/[bold]\x1b[31m.gguf"), "Ollama", "[bold]\x1b[31m.gguf", 4_700_000_000)


def choices(chat: Chat) -> list[str]:
    """What the open dialog offers."""
    options = chat.app.screen.query_one(OptionList).options
    return [str(option.prompt) for option in options]


async def test_the_first_start_says_that_the_model_is_a_demonstration(
    start_chat: StartChat,
) -> None:
    async with start_chat(profile=None) as chat:
        assert isinstance(chat.app.screen, FirstRunDialog)
        explanation = str(chat.app.screen.query_one(Explanation).content)
        assert "demonstration" in explanation
        assert "often wrong" in explanation
        assert [line.split("\n")[0] for line in choices(chat)] == [
            " 1   Qwen2.5 Coder 1.5B + 0.5B, 1.6 GB",
            " 2   A model that is already on this computer",
            " 3   Go on with the demonstration",
        ]
        assert chat.runtime.loaded == []


@pytest.mark.parametrize(
    ("keys", "loaded", "remembered"),
    [
        (["1"], "laptop", ["laptop"]),
        (["3"], "tiny", ["tiny"]),
        (["down", "down", "enter"], "tiny", ["tiny"]),
        (["escape"], "tiny", []),
    ],
)
async def test_the_first_choice_takes_one_key(
    start_chat: StartChat, keys: list[str], loaded: str, remembered: list[str]
) -> None:
    async with start_chat(profile=None) as chat:
        await chat.pilot.press(*keys)
        await chat.until(lambda: chat.runtime.profile is not None)
        await chat.settle()
        assert chat.runtime.loaded == [loaded]
        assert [profile.name for profile in chat.remembered] == remembered
        assert chat.prompt.has_focus


async def test_the_first_choice_can_be_a_file_on_this_computer(start_chat: StartChat) -> None:
    async with start_chat(profile=None, scan=lambda: [FOUND]) as chat:
        await chat.pilot.press("2")
        await chat.until(lambda: len(choices(chat)) == 1)
        assert choices(chat) == ["[bold]␛[31m.gguf\nOllama, 4.7 GB"]
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.runtime.profile is not None)
        profile = chat.runtime.profile
        assert profile is not None
        assert (profile.target, profile.draft) == (str(FOUND.path), "lookup")


async def test_where_no_file_is_found_the_first_choice_is_still_there(
    start_chat: StartChat,
) -> None:
    async with start_chat(profile=None) as chat:
        await chat.press("2")
        assert isinstance(chat.app.screen, FoundDialog)
        explanation = str(chat.app.screen.query_one(Explanation).content)
        assert explanation.startswith("No GGUF file")
        await chat.press("escape")
        assert isinstance(chat.app.screen, FirstRunDialog)


def test_a_file_gets_a_profile_whose_name_is_its_own() -> None:
    assert profile_of(FOUND, ()).name == "bold-31m"
    laptop = Found(Path("/m/laptop.gguf"), "LM Studio", "a/b/Laptop.gguf", 1)
    assert profile_of(laptop, {"laptop"}).name == "laptop-file"
    assert profile_of(Found(Path("/m/語.gguf"), "LM Studio", "語.gguf", 1), ()).name == "model"


async def test_models_tell_what_they_would_cost_to_fetch(
    start_chat: StartChat, registry: Registry
) -> None:
    def missing(profile: Profile) -> list[Model]:
        return [registry.model(name) for name in profile.models if name != "smollm2-135m"]

    async with start_chat(missing=missing) as chat:
        await chat.pilot.press("ctrl+t")
        await chat.until(lambda: "download" in choices(chat)[1])
        assert isinstance(chat.app.screen, ProfilesDialog)
        assert choices(chat)[0].startswith("tiny  in use\n")
        assert choices(chat)[1].startswith("laptop  download 1.6 GB\n")
        assert choices(chat)[2].startswith("code  download\n")  # its size is not known yet


async def test_another_model_stops_the_answer_and_is_remembered(start_chat: StartChat) -> None:
    async with start_chat(Script(["half", " more"], held=True)) as chat:
        await chat.say("question")
        await chat.pilot.press("ctrl+t", "down", "enter")
        await chat.until(lambda: bool(chat.remembered))
        assert chat.runtime.loaded == ["tiny", "laptop"]
        assert chat.messages[1] == "half\n\nstopped here"
        assert chat.status.startswith("● laptop")
        assert [profile.name for profile in chat.remembered] == ["laptop"]


async def test_a_choice_that_another_one_overtakes_is_not_remembered(
    start_chat: StartChat,
) -> None:
    async with start_chat() as chat:
        await chat.until(lambda: chat.runtime.profile is not None)
        chat.runtime.holds_load = True
        await chat.pilot.press("ctrl+t", "down", "enter")
        await chat.until(lambda: chat.runtime.loaded == ["tiny", "laptop"])
        await chat.pilot.press("ctrl+t", "down", "down", "enter")
        await chat.until(lambda: chat.runtime.loaded == ["tiny", "laptop", "code"])
        chat.runtime.load_gate.set()
        await chat.until(lambda: bool(chat.remembered))
        assert [profile.name for profile in chat.remembered] == ["code"]


async def test_what_flags_say_of_any_profile_holds_for_one_picked_on_the_screen(
    start_chat: StartChat,
) -> None:
    def adjusted(profile: Profile) -> Profile:
        return profile.model_copy(update={"n_ctx": 1234, "system": "Be brief."})

    async with start_chat(adjusted=adjusted) as chat:
        assert chat.runtime.profile is not None
        assert (chat.runtime.profile.name, chat.runtime.profile.n_ctx) == ("tiny", 1234)
        await chat.pilot.press("ctrl+t", "down", "enter")
        await chat.until(lambda: bool(chat.remembered))
        assert (chat.runtime.profile.name, chat.runtime.profile.n_ctx) == ("laptop", 1234)
        assert chat.remembered[0].n_ctx != 1234  # a flag is for this run
        await chat.say("Hello")
        assert chat.runtime.asked[-1][0].text == "Be brief."
        await chat.pilot.press("ctrl+t", "enter")  # the one in use: nothing to load
        await chat.settle()
        assert chat.runtime.loaded == ["tiny", "laptop"]


async def test_what_a_server_says_of_its_profile_is_used_and_picking_it_again_loads_nothing(
    start_chat: StartChat,
) -> None:
    async with start_chat() as chat:
        chat.runtime.as_served = lambda asked: asked.model_copy(update={"system": "From there."})
        await chat.pilot.press("ctrl+t", "down", "enter")
        await chat.until(lambda: bool(chat.remembered))
        await chat.say("Hello")
        assert chat.runtime.asked[-1][0].text == "From there."
        await chat.pilot.press("ctrl+t")
        await chat.until(lambda: choices(chat)[1].startswith("laptop  in use"))
        await chat.press("enter")
        assert chat.runtime.loaded == ["tiny", "laptop"]
        assert chat.remembered[0].system is None


async def test_a_failed_change_of_model_leaves_the_old_one(
    start_chat: StartChat, registry: Registry
) -> None:
    runtime = FakeRuntime()
    async with start_chat(runtime=runtime) as chat:
        runtime.load_error = OSError("no space left")
        await chat.pilot.press("ctrl+t", "down", "enter")
        await chat.until(lambda: bool(chat.notes))
        assert chat.status.startswith("● tiny")
        assert chat.remembered == []


async def three_chats(chat: Chat) -> None:
    for text in ("Đường phố Hà Nội", "[bold]second[/bold]", "third"):
        await chat.say(text)
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: chat.messages == [])


async def test_an_earlier_chat_is_found_by_a_word_without_diacritics(
    start_chat: StartChat,
) -> None:
    async with start_chat() as chat:
        await three_chats(chat)
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: len(choices(chat)) == 3)
        assert [line.split("\n")[0] for line in choices(chat)] == [
            "third",
            "[bold]second[/bold]",
            "Đường phố Hà Nội",
        ]
        await chat.pilot.press(*"duong")
        await chat.until(lambda: len(choices(chat)) == 1)
        await chat.pilot.press("enter")
        await chat.until(lambda: len(chat.messages) == 2)
        assert chat.messages[0] == "Đường phố Hà Nội"


async def test_a_chat_is_deleted_by_the_second_press(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await three_chats(chat)
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: len(choices(chat)) == 3)
        await chat.pilot.press("down", "delete", "up", "delete")
        assert len(chat.store.chats()) == 3
        await chat.pilot.press("delete")
        await chat.until(lambda: len(choices(chat)) == 2)
        titles = [summary.title for summary in chat.store.chats()]
        assert titles == ["[bold]second[/bold]", "Đường phố Hà Nội"]


async def test_deleting_the_open_chat_opens_a_new_one(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.say("only one")
        await chat.until(lambda: len(chat.stored) == 2)
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: len(choices(chat)) == 1)
        await chat.pilot.press("delete", "delete")
        await chat.until(lambda: chat.messages == [])
        await chat.pilot.press("escape")
        assert chat.store.chats() == []


async def test_the_open_chat_can_be_deleted_while_it_is_answered(start_chat: StartChat) -> None:
    async with start_chat(Script(["half", " more"], held=True)) as chat:
        await chat.say("question")
        await chat.until(lambda: ("assistant", "half", "streaming") in chat.stored)
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: len(choices(chat)) == 1)
        await chat.pilot.press("delete", "delete")
        await chat.until(lambda: chat.messages == [])
        assert chat.store.chats() == []
        assert chat.notes == []


async def test_the_palette_reaches_everything(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        names = [command.title for command in chat.app.get_system_commands(chat.screen)]
        assert names == [
            "New chat",
            "Chats",
            "Models",
            "Answer again",
            "Other version",
            "Verify",
            "Look inside",
            "Copy the last answer",
            "Save the last answer",
            "Theme",
            "Keys",
            "Quit",
        ]
        await chat.press("ctrl+p")
        await chat.pilot.press(*"Chats", "enter")
        await chat.until(lambda: isinstance(chat.app.screen, ChatsDialog))


async def test_the_picker_says_what_is_on_a_gpu(start_chat: StartChat) -> None:
    def placement(profile: Profile) -> str:
        return "target 24/29 layers on a GPU: 5.1 of 8.0 GB" if profile.name == "tiny" else ""

    async with start_chat(placement=placement) as chat:
        await chat.pilot.press("ctrl+t")
        await chat.until(lambda: any("24/29 layers on a GPU" in line for line in choices(chat)))
        first, second, *_ = choices(chat)
        assert first.startswith("tiny  in use\n")
        assert first.endswith("target 24/29 layers on a GPU: 5.1 of 8.0 GB")
        assert "layers" not in second


async def test_f1_shows_the_keys_and_hides_them_again(start_chat: StartChat) -> None:
    async with start_chat() as chat:
        await chat.pilot.press("f1")
        assert chat.app.screen.query(HelpPanel)
        await chat.pilot.press("f1")
        assert not chat.app.screen.query(HelpPanel)
