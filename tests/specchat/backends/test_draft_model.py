"""A draft model whose target is remote, on a GPU that llama.cpp takes its CPU for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.backends.draft_model import load_draft_model
from specchat.backends.verify_server import preparation
from specengine.core.cancel import AbortFlag
from specengine.files.gguf import GGUF
from specengine.llama import offload
from specengine.llama.placement import Device, GpuLayers
from specengine.load.loaded_model import LoadOptions
from support.remote_chat import ask, remote_runtime
from support.verify_server import VerifyServer


@pytest.fixture(autouse=True)
def gpu(server: VerifyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for what is loaded after the server's model."""
    device = Device("CPU", "a GPU", free=8 << 30, total=8 << 30)
    monkeypatch.setattr(offload, "gpu_devices", lambda _: [device])


@pytest.mark.parametrize(("wanted", "placed"), [(None, 31), (4, 4), (0, 0)])
def test_it_has_as_many_layers_there_as_fit_or_as_are_wanted(
    tiny_model: Path, wanted: int | None, placed: int
) -> None:
    progress: list[str] = []
    options = LoadOptions(n_ctx=256, n_threads=1, gpu_layers=GpuLayers(target=9, draft=wanted))
    loaded = load_draft_model(
        tiny_model, options, AbortFlag(), lambda name, _: progress.append(name), pytest.fail
    )
    loaded.close()
    assert loaded.placement is not None
    assert loaded.placement.n_gpu_layers == placed
    assert set(progress) == {tiny_model.name}


async def test_beside_a_verify_server_it_is_told_and_converted_if_that_is_wanted(
    server: VerifyServer, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def cheaper(draft: GGUF, **_: Any) -> GGUF:
        asked.append(draft.path)
        return draft

    monkeypatch.setattr(preparation, "cheaper", cheaper)
    how = {"gpu_layers": GpuLayers(draft=12), "convert_drafts": True}
    async with remote_runtime(server.url, tiny_model, **how) as runtime:
        assert asked == [tiny_model]
        assert runtime.placement.startswith("draft 12/31 layers on a GPU")
        assert (await ask(runtime, max_tokens=2)).notices == ()
