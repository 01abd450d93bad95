"""Caches on disk: what comes back is what was kept, or nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from specchat.backends.kept_states import KeptStates
from specengine.cache.context import SavedCache

KEY = "0123abcd"


def saved(n: int = 300, state: int = 5000) -> SavedCache:
    rng = np.random.default_rng(n)
    tokens = rng.integers(0, 50_000, n).astype(np.int32)
    return SavedCache(tokens, 2, rng.integers(0, 256, state).astype(np.uint8))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "states"


@pytest.fixture
def states(folder: Path) -> KeptStates:
    return KeptStates(folder, 100_000)


def same(found: SavedCache | None, kept: SavedCache) -> bool:
    return (
        found is not None
        and np.array_equal(found.tokens, kept.tokens)
        and np.array_equal(found.state, kept.state)
        and found.width_step == kept.width_step
    )


def test_what_was_kept_comes_back_whole_under_its_key(states: KeptStates) -> None:
    assert states.save(7, KEY, saved())
    assert same(states.load(7, KEY), saved())
    tokens = states.tokens(7, KEY)
    assert tokens is not None
    assert tokens.tolist() == saved().tokens.tolist()
    assert states.load(7, "another") is None
    assert states.load(8, KEY) is None
    assert same(states.load(7, KEY), saved())  # asking with another key destroys nothing


def with_another_byte(place: int) -> Callable[[bytes], bytes]:
    def damaged(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[place] ^= 1
        return bytes(changed)

    return damaged


@pytest.mark.parametrize(
    "damaged",
    [
        *(with_another_byte(place) for place in (0, 30, 90, 200, 1000, 4000, -40, -1)),
        *(itemgetter(slice(length)) for length in (0, 10, 150, 500, -100, -1)),
        *(lambda _, other=other: other for other in (b"\n", b"{}\n", b"[" * 5000, b"\xff" * 3000)),
    ],
)
def test_a_file_that_is_damaged_or_cut_off_or_anything_else_is_refused(
    states: KeptStates, folder: Path, damaged: Callable[[bytes], bytes]
) -> None:
    states.save(7, KEY, saved())
    file = folder / "7.state"
    file.write_bytes(damaged(file.read_bytes()))
    assert states.load(7, KEY) is None


def test_the_least_recently_used_go_when_the_limit_is_reached(
    states: KeptStates, folder: Path
) -> None:
    for chat_id in (1, 2, 3):
        states.save(chat_id, KEY, saved(state=30_000))
        os.utime(folder / f"{chat_id}.state", (chat_id, chat_id))
    states.load(1, KEY)
    states.save(4, KEY, saved(state=30_000))
    assert sorted(path.name for path in folder.iterdir()) == ["1.state", "3.state", "4.state"]


def test_no_chat_takes_more_than_half(states: KeptStates, folder: Path) -> None:
    states.save(1, KEY, saved(state=10_000))
    assert not states.save(2, KEY, saved(state=60_000))
    assert [path.name for path in folder.iterdir()] == ["1.state"]


def test_a_limit_of_nothing_keeps_nothing(states: KeptStates, folder: Path) -> None:
    states.save(1, KEY, saved())
    off = KeptStates(folder, 0)
    assert not off.save(2, KEY, saved())
    off.keep_only({1, 2})
    assert list(folder.iterdir()) == []


def test_a_disk_that_is_nearly_full_is_left_alone(
    states: KeptStates, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specchat.backends.kept_states._SPARE_BYTES", 2**62)
    assert not states.save(1, KEY, saved())
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    states = KeptStates(tmp_path / "file" / "states", 100_000)
    assert not states.save(1, KEY, saved())
    assert states.load(1, KEY) is None
    states.forget(1)
    states.keep_only(())


def test_a_deleted_chat_leaves_no_file_even_if_it_is_being_written(
    states: KeptStates, folder: Path
) -> None:
    states.save(1, KEY, saved())
    states.forget(1)
    assert list(folder.iterdir()) == []
    assert not states.save(1, KEY, saved())
    assert list(folder.iterdir()) == []


def test_what_belongs_to_no_chat_goes(states: KeptStates, folder: Path) -> None:
    for chat_id in (1, 2):
        states.save(chat_id, KEY, saved())
    (folder / "9.1234.new").write_bytes(b"left by a program that died")
    states.keep_only({2})
    assert [path.name for path in folder.iterdir()] == ["2.state"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_its_owner_may_read_it(states: KeptStates, folder: Path) -> None:
    before = os.umask(0)
    try:
        states.save(1, KEY, saved())
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "1.state").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_is_being_written_at_the_end_is_given_up(states: KeptStates, folder: Path) -> None:
    states.close()
    assert not states.save(1, KEY, saved())
    assert list(folder.iterdir()) == []
