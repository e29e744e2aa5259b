"""The timers of a loop that other threads cancel while it runs."""

from __future__ import annotations

import asyncio
import random

from backoff_ticker import SystemClock
from tests.helpers import PATIENCE, LoopThread


def test_timers_may_be_cancelled_in_other_threads_while_the_loop_runs():
    thread = LoopThread()
    clock = SystemClock()
    draw = random.Random(7)
    ran, prevented = [], []

    async def set_some():
        loop, now = asyncio.get_running_loop(), clock.monotonic()
        return [
            clock.call_at(now + draw.random() * 0.005, lambda n=n: ran.append(n), loop=loop)
            for n in range(200)
        ]

    async def all_done():
        while len(ran) + len(prevented) < 2000:
            await asyncio.sleep(0.001)

    for turn in range(10):
        for number, timer in enumerate(thread.run(set_some())):
            if number % 2 and timer.cancel():
                prevented.append((turn, number))
    thread.run(asyncio.wait_for(all_done(), PATIENCE))
    thread.close()
    assert thread.errors == []
    assert len(ran) + len(prevented) == 2000
    assert len(ran) >= 1000
