"""Counters in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "requests": "Requests by route and status.",
    "tokens": "Tokens committed.",
    "hints_verified": "Hint tokens that were evaluated.",
    "hints_accepted": "Hint tokens that were accepted.",
    "answers": "Answers by how they ended; cancelled: the client no longer wanted it.",
}
_GAUGES = {
    "sessions": "Sessions that exist now.",
    "answers_running": "Answers being generated.",
    "answers_waiting": "Answers waiting for a place.",
    "places_held": "Places in the cache that hold a session's text.",
    "passes": "Passes of the model since the start.",
}


class Metrics:
    """What has happened since the start; read and written in the event loop's thread."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def count(self, name: str, n: int = 1, **labels: str) -> None:
        self._counts[name, tuple(labels.items())] += n

    def render(self, gauges: Mapping[str, float]) -> str:
        """All counters, and `gauges` by name."""
        lines = []
        for name, explanation in _COUNTERS.items():
            full = f"specchat_{name}_total"
            lines += [f"# HELP {full} {explanation}", f"# TYPE {full} counter"]
            series = {labels: n for (key, labels), n in self._counts.items() if key == name}
            lines += [f"{full}{_labels(labels)} {n}" for labels, n in (series or {(): 0}).items()]
        for name, explanation in _GAUGES.items():
            full = f"specchat_{name}"
            lines += [f"# HELP {full} {explanation}", f"# TYPE {full} gauge"]
            lines.append(f"{full} {gauges[name]:g}")
        return "\n".join(lines) + "\n"


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    """Values are our own words: nothing in them needs escaping."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}"
