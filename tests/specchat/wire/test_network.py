"""The thread of the connection."""

import asyncio
import logging
import queue

import pytest

from specchat.wire.network import NetworkThread


def test_whoever_waits_for_work_that_dies_is_told(
    network: NetworkThread, caplog: pytest.LogCaptureFixture
) -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    async def dies() -> None:
        raise OverflowError("too\nlarge")

    network.start(dies(), told.put)
    assert (
        told.get(timeout=20) == "internal error (OverflowError: too large); see the log for details"
    )
    assert "OverflowError" in caplog.text  # with its traceback
    network.start(asyncio.Event().wait(), told.put).cancel()  # type: ignore[arg-type]
    assert told.get(timeout=20) == "the connection was closed"


def test_nobody_is_told_of_work_that_ends_by_itself(network: NetworkThread) -> None:
    told: list[str] = []
    network.start(asyncio.sleep(0), told.append).result(20)
    assert told == []


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
