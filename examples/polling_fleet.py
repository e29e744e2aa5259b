"""Poll many devices, each at its own pace: most in one event loop, some in threads.

Problem: you poll hundreds of devices at fixed times. A device that is slow or fails must neither
delay the others nor let its own polls pile up. Some devices have a driver that blocks.
Shows: a ticker for each device with ``Pace.SKIP``, which leaves out polls that would be late and
counts them in ``tick.missed``; one token that ends the coroutines and the threads.

    python examples/polling_fleet.py

Five minutes pass in a second, because the program runs on a virtual clock. You see how often each
kind of device was polled, how many polls failed, and how many were skipped.
"""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    ConstantBackOff,
    Pace,
    Tick,
    Ticker,
)
from backoff_ticker.testing import VirtualClock


@dataclass
class Device:
    kind: str
    every: float  # seconds from one poll to the next
    takes: float  # seconds until it answers
    polled: int = 0
    failed: int = 0
    skipped: int = 0

    @contextmanager
    def note(self, tick: Tick) -> Iterator[None]:
        self.polled += 1
        self.skipped += tick.missed
        try:
            yield
            if self.kind == "flaky" and tick.number % 10 == 0:
                raise ConnectionError("no answer")
        except ConnectionError:
            self.failed += 1  # the next poll may succeed


async def poll(device: Device, stop: CancellationToken) -> None:
    every = ConstantBackOff(device.every)
    async for tick in AsyncTicker(every, token=stop, pace=Pace.SKIP):
        with device.note(tick):
            await asyncio.sleep(device.takes)  # stands for a request


def poll_in_thread(device: Device, stop: CancellationToken) -> None:
    every = ConstantBackOff(device.every)
    for tick in Ticker(every, token=stop, pace=Pace.SKIP):
        with device.note(tick):
            time.sleep(device.takes)  # stands for a driver that blocks


async def poll_all(
    sensors: list[Device],
    meters: list[Device],
    stop: CancellationToken,
) -> None:
    run = asyncio.get_running_loop().run_in_executor
    # Leaving the block cancels `stop`, then waits for the threads.
    with ThreadPoolExecutor(len(meters)) as pool, stop:
        await asyncio.gather(
            *(poll(device, stop) for device in sensors),
            *(run(pool, poll_in_thread, device, stop) for device in meters),
        )


if __name__ == "__main__":
    sensors = [Device("quick", every=10, takes=0.1) for _ in range(50)]
    sensors += [Device("flaky", every=15, takes=2) for _ in range(20)]
    sensors += [Device("slow", every=10, takes=25) for _ in range(20)]
    meters = [Device("blocking", every=30, takes=40) for _ in range(20)]
    # Without this, five minutes take five minutes.
    with VirtualClock(auto=True, patch_time=True):
        stop = CancellationToken(timeout=300)
        asyncio.run(poll_all(sensors, meters, stop))
    print("kind      devices   polled   failed  skipped")
    for kind in dict.fromkeys(device.kind for device in sensors + meters):
        fleet = [each for each in sensors + meters if each.kind == kind]
        names = ("polled", "failed", "skipped")
        totals = (sum(getattr(d, name) for d in fleet) for name in names)
        print(
            f"{kind:<8}",
            *(f"{number:>8}" for number in (len(fleet), *totals)),
        )
