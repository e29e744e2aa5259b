"""What a child process of the fork tests runs; importable, so that it can be spawned."""

from __future__ import annotations

import asyncio
import queue
import threading
from itertools import islice
from typing import Any

from backoff_ticker import AsyncTicker, CancellationToken, ConstantBackOff, Ticker
from tests.helpers import PATIENCE


def tick_and_report(reports: Any) -> None:
    async def in_loop() -> list[int]:
        ticker = AsyncTicker(ConstantBackOff(0.001))
        return [(await ticker.receive(PATIENCE)).number for _ in range(3)]

    in_thread = [tick.number for tick in islice(Ticker(ConstantBackOff(0.001)), 3)]
    sink: queue.SimpleQueue[Any] = queue.SimpleQueue()
    push = Ticker(ConstantBackOff(0.001)).send_to(sink)
    pushed = [sink.get(timeout=PATIENCE).number for _ in range(3)]
    push.stop()
    called = threading.Event()
    CancellationToken().child(timeout=0.001).on_cancel(called.set)
    reports.put([in_thread, asyncio.run(in_loop()), pushed, called.wait(PATIENCE)])
