from collections.abc import Iterator

import pytest

from specchat.wire.network import NetworkThread


@pytest.fixture(scope="module")
def network() -> Iterator[NetworkThread]:
    thread = NetworkThread()
    yield thread
    thread.close()
