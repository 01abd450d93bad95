"""Text that was not sent: kept once, for its owner alone."""

import sys

import pytest

from specchat.config import locations
from specchat.config.unsent import keep_unsent, take_unsent

pytestmark = pytest.mark.usefixtures("own_home")


def test_what_was_kept_comes_back_once() -> None:
    keep_unsent("half a\nthought")
    assert take_unsent() == "half a\nthought"
    assert take_unsent() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are kept elsewhere there")
def test_nobody_else_may_read_it() -> None:
    keep_unsent("a secret")
    (file,) = locations.state_dir().iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
