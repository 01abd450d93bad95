from typing import get_args

from specchat.cli import options
from specchat.config.settings import Settings
from specengine.core import limits
from specengine.rules import RULES


def test_the_flags_know_what_the_engine_knows() -> None:
    assert set(options.RULES) == set(RULES)
    assert options.MAX_DRAFT == limits.MAX_DRAFT
    assert get_args(Settings.model_fields["on_loss"].annotation) == options.ON_LOSS
