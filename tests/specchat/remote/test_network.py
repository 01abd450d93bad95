"""The thread of the connection."""

import asyncio
import logging

import pytest

from specchat.remote.network import NetworkThread


def test_what_still_runs_is_cancelled_when_the_thread_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network, ended = NetworkThread(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    running = network.submit(work())
    network.call(asyncio.sleep(0))
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        network.close()
    assert ended == [True]
    assert running.cancelled()
    assert caplog.records == []
