"""What the diagnosis says of pass costs, and measuring them again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.backends.pass_costs import CostStore
from specchat.config import locations
from specchat.doctor.passes import MEASURE, age, check_passes, measure_again
from specengine.cache.costs import PassCosts
from specengine.cache.measurement import Measurement

QUIET = Measurement(at=0.0, passes=24, spread=0.03, drift=0.051, load=0.02)
SECONDS = {1: 0.0295, 2: 0.047, 4: 0.074, 8: 0.124, 32: 0.3}

pytestmark = pytest.mark.usefixtures("own_home")


def keep(home: Path, seconds: Mapping[int, float], measured: Measurement | None) -> None:
    model = home / "t.gguf"
    model.write_bytes(b"")
    costs = PassCosts(seconds)
    costs.measured_in = measured
    CostStore(locations.pass_costs_file(), None).save([model], {"t.gguf": costs})


def test_before_anything_was_measured_it_says_when_that_will_be() -> None:
    (check,) = check_passes()
    assert (check.status, check.remedy) == ("ok", None)
    assert check.detail.startswith("not measured yet")


def test_it_says_what_passes_cost_and_when_and_how_that_was_measured(own_home: Path) -> None:
    keep(own_home, SECONDS, replace(QUIET, at=time.time() - 3 * 86400 - 60))
    (check,) = check_passes()
    assert (check.name, check.status) == ("passes", "ok")
    assert check.detail == (
        "t.gguf: 29.5 ms a token, 2 rows 1.6, 4 rows 2.5, 8 rows 4.2; measured 3 days ago, "
        "24 passes, 5% apart, 2% of the CPU busy with others"
    )


def test_costs_of_a_busy_machine_come_with_the_way_to_measure_again(own_home: Path) -> None:
    keep(own_home, SECONDS, replace(QUIET, spread=0.5, load=None))
    (check,) = check_passes()
    assert (check.status, check.remedy) == ("warn", MEASURE)
    assert check.detail.endswith("50% apart: the machine was busy")


def test_a_draft_model_shows_its_draft_tokens_alone(own_home: Path) -> None:
    keep(own_home, {1: 0.0171, 32: 0.3}, None)
    (check,) = check_passes()
    assert check.detail == "t.gguf: 17.1 ms a token; learned from answers, not measured by itself"


def test_settings_that_cannot_be_read_are_told_by_another_check(own_home: Path) -> None:
    locations.settings_file().parent.mkdir(parents=True)
    locations.settings_file().write_text("threads = [")
    assert check_passes() == []


def test_the_models_of_the_profile_are_measured_again(
    own_home: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_MODELS_DIR", str(tiny_model.parent))
    locations.settings_file().parent.mkdir(parents=True)
    locations.settings_file().write_text('profile = "tiny"\n')
    wrong = PassCosts({1: 1000.0, 5: 3000.0})
    wrong.measured_in = QUIET
    CostStore(locations.pass_costs_file(), None).save([tiny_model], {tiny_model.name: wrong})
    asyncio.run(measure_again(lambda event: None))
    kept = CostStore(locations.pass_costs_file(), None).here()[tiny_model.name]
    assert kept.measured is not None
    assert kept.measured.at > QUIET.at
    assert kept.seconds[1] < 500


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5, "less than a minute"),
        (60, "1 minute"),
        (7300, "2 hours"),
        (86400, "1 day"),
        (1e7, "115 days"),
    ],
)
def test_an_age_is_in_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    assert age(seconds) == words
