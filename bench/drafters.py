"""How often the drafts of each drafter stand: the table of docs/drafters.md.

    python bench/drafters.py --target qwen2.5-coder-1.5b --draft lookup --draft qwen2.5-coder-0.5b

A greedy text does not depend on who drafts it. So the target writes each answer once, and every
drafter is then asked, at each place of that text where a round would begin, what it would propose.
Only counts come out of this, so that a busy machine does no harm. What a draft token costs, as a
share of a target pass over one token, is measured besides.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specchat.errors import SpecchatError
from specengine.calibrate import measure_passes
from specengine.cancel import AbortFlag
from specengine.compatibility import require_compatible
from specengine.draft import Draft
from specengine.drafters import Drafter
from specengine.drafting import Drafting
from specengine.errors import SpecEngineError
from specengine.gguf import read_gguf
from specengine.pair import MAX_DRAFT, LoadedModel, LoadOptions, Pair
from specengine.rules import make_rule
from specengine.sampling import SamplingParams, Transforms
from texts import Text, add_text_arguments, categories, model_file, target_texts

GREEDY = SamplingParams(temperature=0)
OPTIONS = LoadOptions(n_ctx=4096)


@dataclass
class Counts:
    tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Counts(*(a + b for a, b in pairs))

    def __str__(self) -> str:
        """Tokens a pass, and the share of draft tokens that stood."""
        rate = f"{self.accepted / self.drafted:.2f}" if self.drafted else "–"
        return f"{self.tokens / self.passes:.2f} ({rate})"


Row = tuple[str, float, dict[str, Counts]]  # drafter, cost of a draft token, counts by category


def main() -> None:
    options = _arguments()
    target = Pair(model_file(options.target), method="lookup", options=OPTIONS)
    try:
        texts = list(target_texts(target, options, GREEDY))
        rows: list[Row] = []
        for name in options.draft:
            rows += _measure(name, target, texts, options.draft_length)
    finally:
        target.close()
    _print_table(rows, texts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--draft",
        action="append",
        required=True,
        help="lookup, a registry name or a GGUF file; NAME+lookup: lookup where it is surer",
    )
    parser.add_argument("--draft-length", type=int, default=4, choices=range(1, MAX_DRAFT + 1))
    add_text_arguments(parser)
    return parser.parse_args()


def _measure(name: str, target: Pair, texts: Sequence[Text], k: int) -> list[Row]:
    """The table's row for the drafter called `name`."""
    model, _, beside = name.partition("+")
    draft, cost = None, 0.0
    vocabularies = None
    if model != "lookup":
        path = model_file(model)
        vocabularies = require_compatible(read_gguf(target.files[0]), read_gguf(path))
        draft = LoadedModel(path, OPTIONS, AbortFlag(), 1)
    try:
        drafting = Drafting(target.vocab, draft, vocabularies)
        drafters = drafting.drafters(
            "cascade" if beside else "lookup" if draft is None else "model",
            Transforms(GREEDY),
            make_rule(None, GREEDY),
        )
        counts: dict[str, Counts] = defaultdict(Counts)
        for text in texts:
            counted = _replay(drafters, text, k)
            counts[text.category] += counted
            print(f"{name} {text.id}: {counted}", file=sys.stderr)
        if draft is not None:
            drafted = sum(c.drafted for c in counts.values())
            cost = draft.context.passes / drafted * _pass_cost(target, draft)
    finally:
        if draft is not None:
            draft.close()
    way = "" if vocabularies is None or vocabularies.way == "ids" else f", as {vocabularies.way}"
    return [(f"{name}{way}", cost, dict(counts))]


def _replay(drafters: Sequence[Drafter], text: Text, k: int) -> Counts:
    """The rounds of `text`, whose first token the prompt's pass gives."""
    tokens = np.array(text.prompt + text.tokens, dtype=np.int32)
    position = len(text.prompt) + 1
    counts = Counts(tokens=len(text.tokens) - 1)
    while position < len(tokens):
        draft = _propose(drafters, tokens[:position], min(k, len(tokens) - position - 1))
        accepted = 0
        while accepted < len(draft) and draft.tokens[accepted] == tokens[position + accepted]:
            accepted += 1
        counts += Counts(0, 1, len(draft), accepted)
        position += accepted + 1
    return counts


def _propose(drafters: Sequence[Drafter], prefix: np.ndarray, k: int) -> Draft:
    """What the surest drafter proposes, by what it says of itself; the first among equals."""
    offers = [(offer, d) for d in drafters if (offer := d.offer(prefix)) is not None]
    if not offers or k < 1:
        return Draft()
    _, drafter = max(offers, key=lambda pair: pair[0].prior)
    return drafter.propose(prefix, k)


def _pass_cost(target: Pair, draft: LoadedModel) -> float:
    """A draft pass as a share of a target pass over one token, both measured now."""
    target_s = target.measure_passes(prefix=256, repeats=3)[0][1]
    return measure_passes(draft.context, prefix=256, repeats=9)[1] / target_s


def _print_table(rows: Sequence[Row], texts: Sequence[Text]) -> None:
    names = categories(texts)
    print("| drafter | cost |", " | ".join(names), "| all |")
    print("|---" * (len(names) + 3) + "|")
    for name, cost, counts in rows:
        cells = [str(counts[c]) for c in names]
        total = sum(counts.values(), Counts())
        print(f"| {name} | {cost:.2f} |", " | ".join(cells), f"| {total} |")


if __name__ == "__main__":
    try:
        main()
    except (SpecchatError, SpecEngineError) as error:
        sys.exit(f"{Path(__file__).name}: {error}")
