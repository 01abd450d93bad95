"""What a pass costs with specchat's own kernels and with llama.cpp's, in turn.

    python bench/own_kernels.py MODEL.gguf
    python bench/own_kernels.py MODEL.gguf --prefix 700 --threads 1 --repeats 20

prints the median milliseconds of passes over 1 to 16 tokens after a prefix, and the seconds of a
prompt of 512. Each kind of kernels has a process of its own, since a process loads one llama.cpp;
the two take turns, pass by pass. Nothing else should run meanwhile. Results: docs/kernels.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import numpy as np

from specengine.core.cancel import AbortFlag
from specengine.llama import library
from specengine.llama.backends import OWN_KERNELS, packed_layouts
from specengine.llama.kv_cache import LlamaKVCache
from specengine.llama.model import LlamaModel
from specengine.llama.threads import default_threads

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
PROMPT = 512
_BATCH = 128
_PROMPTS = 3  # as often as prompts are read


class Passes:
    """A process that evaluates passes of the widths it is told, with one kind of kernels."""

    def __init__(self, kernels: str, options: argparse.Namespace) -> None:
        """`kernels`: on or off."""
        command = [sys.executable, __file__, str(options.model), "--child"]
        command += ["--prefix", str(options.prefix), "--threads", str(options.threads)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "SPECCHAT_KERNELS": kernels},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, width: int) -> float:
        """Of one pass over `width` tokens."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(width, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            sys.exit(1)  # the child said why
        return float(line)

    def close(self) -> None:
        self._process.communicate()


def answer_widths(options: argparse.Namespace) -> None:
    """The child: seconds on standard output for each width on standard input."""
    n_ctx = options.prefix + PROMPT
    with (
        LlamaModel(options.model) as model,
        LlamaKVCache(
            model, n_ctx=n_ctx, n_threads=options.threads, abort=AbortFlag(), max_rows=WIDTHS[-1]
        ) as cache,
    ):
        has_own = OWN_KERNELS in packed_layouts(library.load())
        if not has_own and os.environ.get("SPECCHAT_KERNELS") != "off":
            sys.exit("this build of llama.cpp has no kernels of specchat's")
        tokens = np.random.default_rng(0).integers(0, cache.n_vocab, n_ctx).astype(np.int32)
        for start in range(0, options.prefix, _BATCH):
            cache.decode(tokens[start : options.prefix][:_BATCH], start, slice(0, 0))
        for line in sys.stdin:
            width = int(line)
            rows = slice(0, width) if width <= WIDTHS[-1] else slice(width - 1, width)
            cache.truncate(options.prefix)
            started = time.perf_counter()
            cache.decode(tokens[options.prefix :][:width], options.prefix, rows)
            print(time.perf_counter() - started, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--prefix", type=int, default=128, help="tokens before; default: 128")
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        answer_widths(options)
        return
    kinds = {"llama.cpp": "off", "specchat": "on"}
    measured: dict[tuple[str, int], list[float]] = {}
    with closing(Passes("off", options)) as theirs, closing(Passes("on", options)) as ours:
        sides = dict(zip(kinds, (theirs, ours), strict=True))
        for repeat in range(options.repeats):
            for width in (*WIDTHS, *([PROMPT] if repeat < _PROMPTS else [])):
                for name, passes in sides.items():
                    measured.setdefault((name, width), []).append(passes.seconds(width))
    heads = [*(f"v({width})" for width in WIDTHS), f"prompt of {PROMPT}"]
    print(f"| {options.model.stem} | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for name in kinds:
        times = [f"{1e3 * median(measured[name, width]):.1f}" for width in WIDTHS]
        print(f"| {name} | {' | '.join(times)} | {median(measured[name, PROMPT]):.2f} s |")


if __name__ == "__main__":
    main()
