"""What the kernels of each kind of CPU do to texts, and to the cost of passes: a table.

    python bench/kernel_table.py                        all that this CPU can execute
    python bench/kernel_table.py haswell native         these
    python bench/kernel_table.py --no-time              on a busy machine: without the times
    python bench/kernel_table.py --small                SmolLM2 alone

makes the table of docs/exactness.md, for SmolLM2 and, where its files are here, the pair of the
profile `laptop`. The step is what `--reproducible` pads passes to. Near-ties are tokens of texts
with drafts of four that a pass over one token would not have chosen, greedy and at temperature 1
with shared noise. v(n) is the time of a pass over n tokens. Each row is a process of its own, since
a process loads one llama.cpp; the libraries come from packaging/llama/kernels.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from specchat.config import locations
from specchat.models.registry import load_registry
from specengine.cache.calibrate import measure_passes
from specengine.checks.near_ties import NearTies, Score, noisy_score, teacher_force
from specengine.core.events import Finished
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.load.request import AnswerRequest
from specengine.sampling import SamplingParams

KERNELS = Path(__file__).resolve().parents[1] / "packaging" / "llama" / "kernels.py"
WIDTHS = (2, 4, 8)
TEXTS = (
    "The three primary colours are red, yellow and blue. The three",
    "def reverse(items):\n    return items[::-1]\n\n\ndef reverse",
    "Rain comes about when",
    "Once upon a time there was a fox who",
)
_SEED = 7
_GREEDY = SamplingParams(temperature=0)
_SAMPLED = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0, seed=_SEED)


class Way(NamedTuple):
    """A way to compute: with the native build where `kernels` is None."""

    kernels: str | None = None
    n_threads: int | None = None
    repacks: bool = True


NATIVE = {
    "native": Way(),
    "native, no repacking": Way(repacks=False),
    "native, one thread": Way(n_threads=1),
    "native, three threads": Way(n_threads=3),
}


class Count(BaseModel):
    """Near-ties among tokens, and how many nats the widest lies below the maximum."""

    model_config = ConfigDict(frozen=True)

    others: int
    tokens: int
    widest: float


class Row(BaseModel):
    """What was measured of one model in one way."""

    model_config = ConfigDict(frozen=True)

    model: str
    width_step: int | None
    greedy: Count
    sampled: Count
    ratios: dict[int, float]
    """v(n)/v(1) by n; empty where times were not asked for."""


def measure(target: Path, draft: Path, way: Way, *, max_tokens: int, timed: bool) -> Row:
    """Raises SpecEngineError."""
    options = LoadOptions(n_ctx=512, n_threads=way.n_threads, use_extra_bufts=way.repacks)
    with closing(Pair(target, draft, method="model", options=options)) as pair:
        return Row(
            model=pair.files[0].stem,
            width_step=pair.width_step,
            greedy=_count(pair, _GREEDY, None, max_tokens),
            sampled=_count(pair, _SAMPLED, noisy_score(_SEED, pair.vocab.size), max_tokens),
            ratios=_ratios(pair) if timed else {},
        )


def _count(pair: Pair, sampling: SamplingParams, score: Score | None, max_tokens: int) -> Count:
    found: list[NearTies] = []
    for text in TEXTS:
        prompt = pair.vocab.tokenize(text)
        *_, finished = pair.answer(
            prompt, AnswerRequest(sampling, max_tokens=max_tokens, draft_length=4)
        )
        assert isinstance(finished, Finished)
        found.append(teacher_force(pair.context, prompt, finished.tokens, score))
    return Count(
        others=sum(len(ties.others) for ties in found),
        tokens=sum(ties.n_tokens for ties in found),
        widest=max(ties.widest_gap for ties in found),
    )


def _ratios(pair: Pair) -> dict[int, float]:
    seconds = measure_passes(pair.context, prefix=128, repeats=15)
    return {width: seconds[width] / seconds[1] for width in WIDTHS}


def head() -> list[str]:
    """The first two lines of the table."""
    cells = ["kernels", "model", "step", "near-ties greedy", "at temperature 1"]
    cells += [f"v({n})/v(1)" for n in WIDTHS]
    return [_line(cells), _line(["---"] * len(cells))]


def line(name: str, row: Row) -> str:
    """The way `name` and a model, as a line of the table."""
    step = "none" if row.width_step is None else str(row.width_step)
    times = [f"{row.ratios[n]:.2f}" if n in row.ratios else "–" for n in WIDTHS]
    return _line([name, row.model, step, _told(row.greedy), _told(row.sampled), *times])


def _told(count: Count) -> str:
    widest = f", widest {count.widest:.2g}" if count.others else ""
    return f"{count.others} of {count.tokens}{widest}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def models_here() -> Iterator[tuple[Path, Path]]:
    """Target and draft model of the pairs whose files are on this machine; SmolLM2 drafts for
    itself.
    """
    registry = load_registry(locations.registry_file())
    for target, draft in (
        ("smollm2-135m", "smollm2-135m"),
        ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"),
    ):
        pair = tuple(
            locations.models_dir() / registry.model(name).file_name for name in (target, draft)
        )
        if all(file.exists() for file in pair):
            yield pair[0], pair[1]


def _ways(names: Sequence[str]) -> dict[str, Way]:
    names = names or [*_kernels().split(), *NATIVE]
    return {name: NATIVE.get(name, Way(kernels=name)) for name in names}


def _kernels(*name: str) -> str:
    """What kernels.py prints; ends the program where it fails, as it has said why."""
    done = subprocess.run(
        [sys.executable, KERNELS, *name], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.strip()


def _in_a_process(way: Way, pair: tuple[Path, Path], options: argparse.Namespace) -> Row:
    environ = dict(os.environ)
    if way.kernels is not None:
        environ["LLAMA_CPP_LIB_PATH"] = _kernels(way.kernels)
    command = [sys.executable, __file__, "--max-tokens", str(options.max_tokens)]
    command += [f"--threads={way.n_threads or 0}", "--pair", *map(str, pair)]
    command += [] if way.repacks else ["--no-repack"]
    command += ["--no-time"] if options.no_time else []
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True)
    return Row.model_validate_json(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="KERNELS", help=f"also {', '.join(NATIVE)}")
    parser.add_argument("--no-time", action="store_true", help="measure no times")
    parser.add_argument("--small", action="store_true", help="SmolLM2 alone")
    parser.add_argument("--max-tokens", type=int, default=72, help="of each of the eight texts")
    # What this program asks of its own processes:
    parser.add_argument("--pair", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--no-repack", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pair:
        way = Way(None, options.threads or None, not options.no_repack)
        target, draft = options.pair
        timed, max_tokens = not options.no_time, options.max_tokens
        print(measure(target, draft, way, max_tokens=max_tokens, timed=timed).model_dump_json())
        return
    print(*head(), sep="\n")
    for name, way in _ways(options.names).items():
        for pair in islice(models_here(), 1 if options.small else None):
            print(line(name, _in_a_process(way, pair, options)), flush=True)


if __name__ == "__main__":
    main()
