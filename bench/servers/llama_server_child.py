"""llama-server out of the package `xllamacpp`, in a process of its own.

`python llama_server_child.py JSON PORT` serves until its standard input ends. The package brings
a llama.cpp of its own, which must never meet ours in one process.
"""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class PeerModels(BaseModel):
    """What the peer loads: the very files, threads and context length of our own pair."""

    model_config = ConfigDict(frozen=True)

    target: Path
    draft: Path | None
    n_ctx: int
    threads: int


def serve(models: PeerModels, port: int) -> None:
    xllamacpp = importlib.import_module("xllamacpp")
    print(f"build_info: xllamacpp {xllamacpp.__version__}", file=sys.stderr)
    print(f"system_info: {xllamacpp.get_system_info()}", file=sys.stderr, flush=True)
    params = xllamacpp.CommonParams()
    params.port = port
    params.model.path = str(models.target)
    params.n_ctx = models.n_ctx
    params.cpuparams.n_threads = models.threads
    params.cpuparams_batch.n_threads = models.threads
    if models.draft is not None:
        params.speculative.draft.mparams.path = str(models.draft)
        kind = xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE
        params.speculative.types = [kind]
    server = xllamacpp.Server(params)
    sys.stdin.read()
    del server  # it serves for as long as it is referenced


if __name__ == "__main__":
    # Ctrl-C is for the benchmark, which then ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(PeerModels.model_validate_json(sys.argv[1]), int(sys.argv[2]))
