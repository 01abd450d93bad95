"""Other ways to compute than this machine's own, for the tests' own process.

    pytest --threads 3        every pass with so many threads
    pytest --no-repack        weights stay as they are in their file

Kernels of other CPUs hold for child processes, too: `make test KERNELS=haswell`.
"""

from __future__ import annotations

from typing import Any

import pytest

from specengine.llama import library


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("ways to compute")
    group.addoption("--threads", metavar="N", type=int, help="threads of every pass")
    group.addoption("--no-repack", action="store_true", help="leave weights as they are")


def use(config: pytest.Config) -> None:
    """Make llama.cpp compute as the options say."""
    threads, keeps = config.getoption("--threads"), config.getoption("--no-repack")
    if not threads and not keeps:
        return
    llama: Any = library.load()
    load, begin = llama.llama_model_load_from_file, llama.llama_init_from_model

    def load_as_told(path: bytes, params: Any) -> Any:
        params.use_extra_bufts = params.use_extra_bufts and not keeps
        return load(path, params)

    def begin_as_told(model: Any, params: Any) -> Any:
        if threads:
            params.n_threads = params.n_threads_batch = threads
        return begin(model, params)

    llama.llama_model_load_from_file, llama.llama_init_from_model = load_as_told, begin_as_told
