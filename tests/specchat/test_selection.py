"""Which profile is loaded, and what settings and flags replace in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.models.registry import Profile, Registry, load_registry
from specchat.selection import adjusted, other_context, select_profile
from specchat.settings import Settings


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def test_the_last_choice_holds_until_flags_or_settings_name_another(registry: Registry) -> None:
    last = registry.profile("laptop")
    assert select_profile(registry, Settings(), last=last).name == "laptop"
    assert select_profile(registry, Settings(), last=last, draft="none").target == last.target
    assert select_profile(registry, Settings(), last=last, profile="tiny").name == "tiny"
    assert select_profile(registry, Settings(profile="tiny"), last=last).name == "tiny"
    assert select_profile(registry, Settings(), last=last, target="x.gguf").target == "x.gguf"


def test_context_length_and_system_message_hold_for_any_profile(registry: Registry) -> None:
    own = Profile(name="own", description="", target="a.gguf", draft="lookup", system="Be kind.")
    changed = adjusted(own, Settings(ctx=1234), system="Be brief.")
    assert (changed.n_ctx, changed.system) == (1234, "Be brief.")
    assert (changed.target, changed.draft) == ("a.gguf", "lookup")
    assert adjusted(own, Settings(), system=None) == own


def test_a_context_of_another_length_is_said_where_a_length_was_asked_for() -> None:
    default = Profile(name="custom", description="", target="model.gguf")
    assert other_context(default, 2048) == []
    asked = adjusted(default, Settings(ctx=4096), system=None)
    assert other_context(asked, 4096) == []
    [said] = other_context(asked, 2048)
    assert "2048 tokens, not of 4096" in said
    [said] = other_context(asked.model_copy(update={"target": "http://host"}), 8192)
    assert "its server" in said
