"""Which profile is loaded, and what settings and flags replace in it."""

from __future__ import annotations

import pytest

from specchat.config.settings import Settings
from specchat.errors import SpecchatError
from specchat.models.registry import Profile, Registry, load_registry
from specchat.models.selection import (
    adjusted,
    as_served,
    other_context,
    select_profile,
    served_profile,
)
from specengine.sampling import SamplingParams

pytestmark = pytest.mark.usefixtures("own_home")


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
    assert "2048 tokens, not 4096" in said
    [said] = other_context(asked.model_copy(update={"target": "http://host"}), 8192)
    assert "the server" in said


def test_a_served_profile_fills_in_what_the_clients_own_leaves_open(registry: Registry) -> None:
    said = served_profile(registry.profile("tiny"))
    assert said == {"name": "tiny", "system": "", "sampling": {"temperature": 0.2, "top_p": 0.9}}
    bare = select_profile(registry, Settings(), target="http://there")
    there = as_served(bare, **said)
    assert (there.name, there.system, there.target) == ("tiny", "", "http://there")
    assert there.sampling.model_dump(exclude_unset=True) == said["sampling"]
    own = Profile(
        name="own",
        description="",
        target="http://there",
        system="Be kind.",
        sampling=SamplingParams.model_validate({"temperature": 0.5}),
    )
    kept = as_served(own, **said)
    assert (kept.name, kept.system) == ("own", "Be kind.")
    assert kept.sampling.model_dump(exclude_unset=True) == {"temperature": 0.5, "top_p": 0.9}


def test_a_target_that_is_served_without_a_profile_says_nothing(registry: Registry) -> None:
    assert served_profile(select_profile(registry, Settings(), target="x.gguf")) is None


def test_of_a_servers_sampling_the_unknown_is_left_out_and_the_impossible_named() -> None:
    own = Profile(name="own", description="", target="http://there")
    newer = as_served(own, name="x", system=None, sampling={"top_k": 3, "of_tomorrow": 1})
    assert newer.sampling.model_dump(exclude_unset=True) == {"top_k": 3}
    with pytest.raises(
        SpecchatError,
        match=r"http://there recommends sampling settings that cannot be used: top_k = 'x'",
    ):
        as_served(own, name="x", system=None, sampling={"top_k": "x"})
