"""How often the drafts of each drafter are accepted: the table of docs/drafters.md.

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

from acceptance.texts import Text, add_text_arguments, categories, model_file, target_texts
from specchat.errors import SpecchatError
from specengine.core.draft import Draft
from specengine.core.drafter import Drafter
from specengine.core.errors import SpecEngineError
from specengine.core.limits import MAX_DRAFT
from specengine.drafters.block import BlockDrafter
from specengine.drafters.head import HeadDrafter
from specengine.drafters.lookup import LookupDrafter
from specengine.drafters.model import ModelBased
from specengine.files.compatibility import require_compatible
from specengine.files.gguf import read_gguf
from specengine.load.drafting import DraftMethod
from specengine.load.loaded_model import LoadOptions
from specengine.load.pair import Pair
from specengine.rules import make_rule
from specengine.sampling import SamplingParams

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
        """Tokens a pass, and the share of accepted draft tokens; of an answer that has passes."""
        if not self.passes:
            return "–"
        rate = f"{self.accepted / self.drafted:.2f}" if self.drafted else "–"
        return f"{self.tokens / self.passes:.2f} ({rate})"


Row = tuple[str, float, dict[str, Counts]]  # drafter, cost of a draft token, counts by category


def main() -> None:
    options = _arguments()
    file = model_file(options.target)
    target = Pair(file, method="none", options=OPTIONS)
    try:
        texts = list(target_texts(target, options, GREEDY))
    finally:
        target.close()
    rows = [_measure(name, file, texts, options.draft_length) for name in options.draft]
    _print_table(rows, texts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--draft",
        action="append",
        required=True,
        help="lookup, mtp, a registry name or a GGUF file; NAME+lookup: lookup where it is surer",
    )
    parser.add_argument("--draft-length", type=int, default=4, choices=range(1, MAX_DRAFT + 1))
    add_text_arguments(parser)
    return parser.parse_args()


def _measure(name: str, file: Path, texts: Sequence[Text], k: int) -> Row:
    """The table's row for the drafter called `name` beside the target in `file`."""
    model, _, beside = name.partition("+")
    draft = model_file(model) if model not in ("lookup", "mtp") else None
    vocabularies = None
    if draft is not None:
        vocabularies = require_compatible(read_gguf(file), read_gguf(draft))
    method: DraftMethod = "mtp" if model == "mtp" else "lookup" if draft is None else "model"
    pair = Pair(file, draft, method=method, vocabularies=vocabularies, options=OPTIONS)
    try:
        drafters: list[Drafter] = [LookupDrafter()] if beside or model == "lookup" else []
        own = pair.draft_model(GREEDY, make_rule(None, GREEDY))
        if own is not None:
            drafters.append(own)
        counts: dict[str, Counts] = defaultdict(Counts)
        for text in texts:
            counted = _replay(pair, drafters, text, k)
            counts[text.category] += counted
            print(f"{name} {text.id}: {counted}", file=sys.stderr)
        cost = _cost(pair, own, sum(c.drafted for c in counts.values()))
    finally:
        pair.close()
    way = "" if vocabularies is None or vocabularies.way == "ids" else f", as {vocabularies.way}"
    return f"{name}{way}", cost, dict(counts)


def _replay(pair: Pair, drafters: Sequence[Drafter], text: Text, k: int) -> Counts:
    """The rounds of `text`, whose first token the prompt's pass gives."""
    tokens = np.array(text.prompt + text.tokens, dtype=np.int32)
    if any(isinstance(drafter, HeadDrafter | BlockDrafter) for drafter in drafters):
        pair.context.logits(tokens)  # heads read the target's hidden states
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


def _cost(pair: Pair, drafter: Drafter | None, drafted: int) -> float:
    """A draft token as a share of a target pass over one token, both measured now."""
    if drafter is None:
        return 0.0
    target_s, *others = (seconds[1] for seconds in pair.measure_passes(prefix=256, repeats=9))
    if isinstance(drafter, HeadDrafter):
        return drafter.context.measure_passes(prefix=256, repeats=9)[1] / target_s
    passes = (
        drafter.context.passes / drafted if isinstance(drafter, ModelBased) and drafted else 1.0
    )
    return passes * others[0] / target_s


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
