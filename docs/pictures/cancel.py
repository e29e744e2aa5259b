"""One cancel reaches threads and event loops: each of four waits ends at that moment."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
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

LANES = [
    ("thread", "@retry(..., token=stop)", "raises Cancelled"),
    ("thread", "for tick in Ticker(..., token=stop)", "iteration ends"),
    ("loop", "async for tick in AsyncTicker(..., token=stop)", "iteration ends"),
    ("loop", "async with stop.child(timeout=30).scope()", "raises Cancelled"),
]

RUN, STAND, HIT = 8.0, 3.0, 0.5
"""How long the picture runs up to the cancel, stands after it, and shows the hit, in seconds."""

LEFT, TOP, ROW, SCALE = 10, 74, 58, 24
HEIGHT = TOP + 4 * ROW + 18


class Lane:
    """What was done in a lane: when it began and ended, and when each piece of work did.

    Args:
        clock: The virtual clock.
        stop: The token.
    """

    def __init__(self, clock: VirtualClock, stop: CancellationToken) -> None:
        self.clock, self.stop = clock, stop
        self.begun = self.ended = 0.0
        self.work: list[tuple[float, float]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note when the block begins and ends."""
        self.begun = self.clock.monotonic()
        with suppress(Cancelled):
            yield
        self.ended = self.clock.monotonic()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Note that the block is a piece of work."""
        begin = self.clock.monotonic()
        try:
            yield
        finally:
            self.work.append((begin, self.clock.monotonic()))


def _retry(lane: Lane) -> None:
    def fetch() -> None:
        with lane.working():
            lane.clock.sleep(1)
        raise ConnectionError

    with lane.running():
        retry_call(fetch, ExponentialBackOff(2, 0, 2), token=lane.stop)


def _poll(lane: Lane) -> None:
    with lane.running():
        for _ in Ticker(ConstantBackOff(4), token=lane.stop):
            with lane.working():
                lane.clock.sleep(1)


async def _beat(lane: Lane) -> None:
    with lane.running():
        async for _ in AsyncTicker(ConstantBackOff(2.5), token=lane.stop):
            with lane.working():
                await asyncio.sleep(0.5)


async def _request(lane: Lane) -> None:
    await asyncio.sleep(5)
    with lane.running(), lane.working():
        async with lane.stop.child(timeout=30).scope():
            await asyncio.sleep(20)


def data() -> list[Lane]:
    """Run all four, and cancel."""
    with VirtualClock(auto=True) as clock:
        stop = CancellationToken()
        retry, poll, beat, request = lanes = [Lane(clock, stop) for _ in LANES]

        async def main() -> None:
            asyncio.get_running_loop().call_later(CANCEL, stop.cancel)
            await asyncio.gather(_beat(beat), _request(request))

        threads = [
            threading.Thread(target=run, args=(lane,))
            for run, lane in ((_retry, retry), (_poll, poll))
        ]
        for thread in threads:
            thread.start()
        asyncio.run(main())
        for thread in threads:
            thread.join()
    return lanes


def _x(time: float) -> float:
    return LEFT + time * SCALE


def _motion() -> str:
    """Return the rules: the lanes run up to the cancel, and what it did stands for a while.

    The first that is seen is what stands, complete: a printer or a preview may take just that.
    """
    cycle = RUN + STAND
    before, now, soon = (f"{100 * (RUN + s) / cycle:.2f}%" for s in (-0.001, 0, HIT))
    time = f"{cycle:g}s -{RUN + HIT:g}s"
    there = f"translateX({_x(CANCEL) - LEFT:g}px)"
    return f"""
.past{{animation:past {time} linear infinite;transform-origin:{LEFT}px 0}}
.now{{animation:now {time} linear infinite}}
.end{{animation:end {time} linear infinite}}
.hit path{{animation:hit {time} ease-out infinite}}
@keyframes past{{0%{{transform:scaleX(0)}}{now},to{{transform:scaleX(1)}}}}
@keyframes now{{0%{{opacity:1;transform:none}}
{before}{{opacity:1}}{now},to{{opacity:0;transform:{there}}}}}
@keyframes end{{0%,{before}{{opacity:0}}{now},to{{opacity:1}}}}
@keyframes hit{{0%,{now}{{stroke-width:19px}}{soon},to{{stroke-width:9px}}}}
"""


def draw(picture: Picture, data: list[Lane]) -> None:
    """Draw a lane for each, and the cancel across them."""
    cancel = _x(CANCEL)
    picture.motion(_motion())
    with picture.group("now", seen_at_rest=False):
        picture.line(LEFT, 34, LEFT, HEIGHT - 30, "wait", width=1.5)
    picture.clip("past", LEFT, TOP - 4, cancel - LEFT, HEIGHT - TOP)
    picture.rect(10, 14, 16, 12, "thread", radius=2)
    picture.text(32, 24, "thread", size=13)
    picture.rect(92, 14, 16, 12, "loop", radius=2)
    picture.text(114, 24, "event loop", size=13)
    picture.line(198, 20, 216, 20, "wait", width=1.5, dash="1 4")
    picture.text(223, 24, "waits", size=13)
    picture.seconds(HEIGHT - 12, range(2, 15, 2), _x)
    lanes = list(zip((TOP + row * ROW for row in range(len(LANES))), data, LANES, strict=True))
    for y, _, (_, code, _) in lanes:
        picture.text(LEFT, y - 8, code, mono=True)
    with picture.group("lanes", clip="past"):
        for y, lane, (colour, _, _) in lanes:
            begun, ended = _x(lane.begun), _x(lane.ended)
            picture.line(begun, y + 10, ended, y + 10, "wait", width=1.5, dash="1 4")
            for begin, end in lane.work:
                picture.rect(_x(begin), y, (end - begin) * SCALE, 20, colour, radius=2)
    with picture.group("end"):
        picture.text(cancel, 24, "stop.cancel()", mono=True, bold=True, size=14, anchor="middle")
        picture.line(cancel, 34, cancel, HEIGHT - 30, "bad", width=2)
        for y, _, (_, _, ended) in lanes:
            picture.text(cancel + 10, y + 14, ended, "bad", size=13)
        with picture.group("hit"):
            picture.dots([(_x(lane.ended), y + 10) for y, lane, _ in lanes], "bad", size=9)
