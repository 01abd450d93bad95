"""What the peer drafts with: what the pair has loaded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from peer import sides
from peer.sides import PeerDraft, peer_draft
from specchat.backends.runtime import Runtime
from specchat.benchmark.session import Plan, Watcher
from specchat.config import locations
from specchat.models.ensure import ensure_model
from specchat.models.registry import load_registry

TARGET = Path("target.gguf")


@dataclass
class Loaded:
    """A pair as far as its files go, and the runtime that has it."""

    method: str
    files: list[Path] = field(default_factory=lambda: [TARGET])

    async def run(self, work: Callable[[Any], Any]) -> Any:
        return work(self)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def fetch(model: Any, **_: Any) -> Path:
        names.append(model.name)
        return Path("fetched.gguf")

    monkeypatch.setattr(sides, "ensure_model", fetch)
    return names


async def draft_beside(loaded: Loaded, profile: str, draft: str | None = None) -> PeerDraft:
    registry = load_registry(locations.registry_file())
    chosen = registry.profile(profile)
    if draft is not None:
        chosen = chosen.model_copy(update={"draft": draft})
    async with AsyncExitStack() as stack:
        plan = Plan(profile=chosen, items=(), conditions=())
        return await peer_draft(plan, registry, cast(Runtime, loaded), Watcher(), stack)


async def test_it_is_the_pairs_own(tiny_model: Path, fetched: list[str]) -> None:
    found = await draft_beside(Loaded("cascade", [TARGET, tiny_model]), "laptop")
    assert (found.file, fetched) == (tiny_model, [])


async def test_beside_lookup_it_is_the_first_alternative(fetched: list[str]) -> None:
    found = await draft_beside(Loaded("lookup"), "laptop")
    assert (found.file, fetched) == (Path("fetched.gguf"), ["qwen2.5-coder-0.5b"])


@pytest.mark.parametrize(("profile", "draft"), [("laptop", "none"), ("tiny", "lookup")])
async def test_without_a_draft_model_there_is_none(
    profile: str, draft: str, fetched: list[str]
) -> None:
    found = await draft_beside(Loaded(draft), profile, draft)
    assert (found, fetched) == (PeerDraft(None), [])


async def test_a_head_drafts_for_our_pair_alone(fetched: list[str]) -> None:
    head = ensure_model(load_registry().model("smollm2-135m-eagle3"))
    for loaded in (Loaded("cascade", [TARGET, head]), Loaded("mtp")):
        found = await draft_beside(loaded, "tiny")
        assert (found.file, fetched) == (None, [])
        assert "no head" in found.alone
