from pathlib import Path

import pytest

from specchat.models.last_profile import last_profile, remember_profile
from specchat.models.registry import Profile, load_registry

pytestmark = pytest.mark.usefixtures("own_home")


def test_at_the_first_start_nothing_was_chosen() -> None:
    assert last_profile(load_registry()) is None


def test_a_profile_is_remembered_as_the_registry_has_it_now() -> None:
    registry = load_registry()
    remember_profile(registry.profile("laptop").model_copy(update={"n_ctx": 512}))
    assert last_profile(registry) == registry.profile("laptop")


def test_a_file_that_was_chosen_is_remembered_while_it_is_there(own_home: Path) -> None:
    file = own_home / "own.gguf"
    file.touch()
    own = Profile(name="own", description="mine", target=str(file), draft="lookup")
    remember_profile(own)
    assert last_profile(load_registry()) == own
    file.unlink()
    assert last_profile(load_registry()) is None


def test_a_damaged_memory_is_none(own_home: Path) -> None:
    remember_profile(load_registry().profile("tiny"))
    (own_home / "state" / "profile.json").write_bytes(b"\xff{")
    assert last_profile(load_registry()) is None


def test_a_memory_that_cannot_be_written_costs_only_the_choice(own_home: Path) -> None:
    (own_home / "state").touch()
    remember_profile(load_registry().profile("tiny"))
    assert last_profile(load_registry()) is None
