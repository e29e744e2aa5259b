"""One cancel reaches threads and event loops: each of four waits ends at that moment."""

import asyncio
import threading

from backoff_ticker import (
    AsyncTicker,
    Cancelled,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    Ticker,
    retry_call,
)
from backoff_ticker.testing import VirtualClock
from svg import Picture

TITLE = "One cancel ends a retry and a ticker in threads, a ticker and a request in an event loop"
CANCEL = 14.0
"""Seconds."""

LANES = {
    "retry": ("thread", "@retry(..., token=stop)", "raises Cancelled"),
    "ticker": ("thread", "for tick in Ticker(..., token=stop)", "iteration ends"),
    "async ticker": ("loop", "async for tick in AsyncTicker(..., token=stop)", "iteration ends"),
    "request": ("loop", "async with stop.child(timeout=30).scope()", "raises Cancelled"),
}

LEFT, TOP, ROW, SCALE = 10, 74, 58, 24
HEIGHT = TOP + 4 * ROW + 18


class Lane:
    """What was done in a lane: when each piece of work began and ended, and when all of it did."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.begun = clock.monotonic()
        self.work = []
        self.ended = None

    def work_on(self, begin: float) -> None:
        """Note a piece of work that has just ended."""
        self.work.append((begin, self._clock.monotonic()))

    def end(self) -> None:
        """Note the end."""
        self.ended = self._clock.monotonic()


def data() -> dict[str, Lane]:
    """Run all four, and cancel."""
    with VirtualClock(auto=True) as clock:
        lanes = {name: Lane(clock) for name in LANES}
        stop = CancellationToken()

        def fetch() -> None:
            begin = clock.monotonic()
            clock.sleep(1)
            lanes["retry"].work_on(begin)
            raise ConnectionError

        def retries() -> None:
            try:
                retry_call(fetch, ExponentialBackOff(2, 0, 2), token=stop)
            except Cancelled:
                lanes["retry"].end()

        def polls() -> None:
            for tick in Ticker(ConstantBackOff(4), token=stop):
                clock.sleep(1)
                lanes["ticker"].work_on(tick.due)
            lanes["ticker"].end()

        async def beats() -> None:
            async for tick in AsyncTicker(ConstantBackOff(2.5), token=stop):
                await asyncio.sleep(0.5)
                lanes["async ticker"].work_on(tick.due)
            lanes["async ticker"].end()

        async def requests() -> None:
            lane = lanes["request"]
            await asyncio.sleep(5)
            lane.begun = clock.monotonic()
            try:
                async with stop.child(timeout=30).scope():
                    await asyncio.sleep(20)  # the request
            except Cancelled:
                lane.work_on(lane.begun)
                lane.end()

        async def main() -> None:
            asyncio.get_running_loop().call_later(CANCEL, stop.cancel)
            await asyncio.gather(beats(), requests())

        threads = [threading.Thread(target=run) for run in (retries, polls)]
        for thread in threads:
            thread.start()
        asyncio.run(main())
        for thread in threads:
            thread.join()
    return lanes


def _x(time: float) -> float:
    return LEFT + time * SCALE


def draw(picture: Picture, data: dict[str, Lane]) -> None:
    """Draw a lane for each, and the cancel across them."""
    cancel = _x(CANCEL)
    picture.text(cancel, 24, "stop.cancel()", mono=True, bold=True, size=14, anchor="middle")
    picture.rect(10, 14, 16, 12, "thread", radius=2)
    picture.text(32, 24, "thread", size=13)
    picture.rect(92, 14, 16, 12, "loop", radius=2)
    picture.text(114, 24, "event loop", size=13)
    picture.line(198, 20, 216, 20, "wait", width=1.5, dash="1 4")
    picture.text(223, 24, "waits", size=13)
    picture.line(cancel, 34, cancel, HEIGHT - 30, "bad", width=2)
    for row, (name, lane) in enumerate(data.items()):
        colour, code, ended = LANES[name]
        y = TOP + row * ROW
        picture.text(LEFT, y - 8, code, mono=True)
        picture.line(_x(lane.begun), y + 10, _x(lane.ended), y + 10, "wait", width=1.5, dash="1 4")
        for begin, end in lane.work:
            picture.rect(_x(begin), y, (end - begin) * SCALE, 20, colour, radius=2)
        picture.dots([(_x(lane.ended), y + 10)], "bad", size=9)
        picture.text(cancel + 10, y + 14, ended, "bad", size=13)
    picture.seconds(HEIGHT - 12, 2, 14, 2, _x)
