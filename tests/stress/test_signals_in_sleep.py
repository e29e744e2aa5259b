"""Signals that come while the main thread sleeps, in the selector of its loop or in a wait."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

import pytest

from backoff_ticker import CancellationToken, Cancelled, cancel_on_signals
from tests.cancellation.test_signals import handlers  # noqa: F401 - a fixture
from tests.helpers import PATIENCE, eventually, in_thread


def send_once_asleep(number: int, function: str) -> None:
    """Send this process a signal once its main thread has slept in ``function`` for a while."""
    seen = 0

    def slept() -> bool:
        nonlocal seen
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        asleep = frame is not None and frame.f_code.co_name == function
        seen = seen + 1 if asleep else 0
        return seen == 20

    eventually(slept, f"the sleep in {function}()")
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_loop_that_sleeps_wakes_at_once(number: signal.Signals) -> None:
    """No timer of the loop is due, so nothing but the signal can wake it."""

    async def main(token: CancellationToken) -> tuple[bool, str]:
        waiting = asyncio.create_task(token.wait_async())
        with pytest.raises(Cancelled, match=number.name):
            async with token.child().scope():
                await asyncio.get_running_loop().create_future()
        return await waiting, str(token.cause)

    with cancel_on_signals() as token:
        thread = in_thread(token.wait)
        sender = in_thread(send_once_asleep, number, "select")
        assert asyncio.run(main(token)) == (True, number.name)
        assert thread.result(PATIENCE) is True
        sender.result(PATIENCE)


def test_a_main_thread_that_waits_for_the_token_is_woken_by_the_signal() -> None:
    with cancel_on_signals() as token:
        sender = in_thread(send_once_asleep, signal.SIGTERM, "park")
        assert token.wait() is True
        sender.result(PATIENCE)
    assert token.cause == "SIGTERM"
