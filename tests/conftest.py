"""Fixtures for all tests: the real models, fetched once and kept outside the checkout."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest

from specchat.config import locations
from specchat.models.ensure import ensure_model
from specchat.models.registry import load_registry
from specengine.cache.context import Context
from specengine.cache.widths import measure_width_step
from specengine.core.cancel import AbortFlag
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from support import ways

# How long an example takes says something of the machine alone.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

# Before any test points SPECCHAT_HOME elsewhere: what `make chat` fetched is used, and the reverse.
MODELS_DIR = locations.models_dir()

# Shells let what they run in the background ignore Ctrl-C, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class LaptopModels(NamedTuple):
    """The files of the profile `laptop`."""

    target: Path
    draft: Path


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """SmolLM2-135M-Instruct Q4_1, the embedded default."""
    return ensure_model(load_registry().model("smollm2-135m"), folder=MODELS_DIR)


@pytest.fixture(scope="session")
def smollm_step(tiny_model: Path) -> int:
    """What passes of `tiny_model` are padded to where a text must not depend on their widths.

    Skips the test where no multiple helps: some kernels have none (docs/exactness.md).
    """
    with (
        LlamaModel(tiny_model) as model,
        LlamaKVCache(model, n_ctx=128, n_threads=2, abort=AbortFlag()) as cache,
    ):
        step = measure_width_step(Context(cache))
    if step is None:
        pytest.skip("no width of passes is stable with these kernels")
    return step


@pytest.fixture(scope="session")
def laptop_models() -> LaptopModels:
    """Both Qwen2.5-Coder files, 1.6 GB."""
    registry = load_registry()
    target, draft = registry.model("qwen2.5-coder-1.5b"), registry.model("qwen2.5-coder-0.5b")
    return LaptopModels(
        ensure_model(target, folder=MODELS_DIR), ensure_model(draft, folder=MODELS_DIR)
    )


@pytest.fixture(scope="session")
def gemma_model() -> Path:
    """Gemma 3 270M Q4_K_M, 253 MB: every sixth layer sees all, the others 512 tokens."""
    return ensure_model(load_registry().model("gemma3-270m"), folder=MODELS_DIR)


def pytest_addoption(parser: pytest.Parser) -> None:
    ways.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    ways.use(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if used & {"laptop_models", "gemma_model"}:
            item.add_marker(pytest.mark.model)
        if used & {"laptop_models", "gemma_model", "tiny_model"}:
            item.add_marker(pytest.mark.kernels)
