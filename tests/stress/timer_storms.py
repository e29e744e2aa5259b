"""Storms over timers: each start fires once or is prevented once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import Timer, WouldBlock

if TYPE_CHECKING:
    from random import Random

    from tests.stress.crew import Crew

STARTS = 60
"""Of each thread that starts a timer."""

OBJECTS = 60
"""Made anew for each race of a few steps."""


def race_for_timers(crew: Crew, draw: Random) -> int:
    """Start, stop and receive one timer after the other, in step: one of them gets it."""
    delay = draw.choice([0, 1e-5, 5e-5, 60])
    timers = [Timer() for _ in range(OBJECTS)]
    prevented: list[list[None]] = [[] for _ in timers]
    received: list[list[float]] = [[] for _ in timers]
    if delay == 60:
        for timer in timers:
            timer.start(delay)

    def start(number: int) -> None:
        timers[number].start(delay)

    def stop(number: int) -> None:
        if timers[number].stop():
            prevented[number].append(None)

    def receive(number: int) -> None:
        with suppress(TimeoutError):
            received[number].append(timers[number].c.receive(draw.choice([0, 1e-4])))

    if delay == 60:
        crew.in_step(OBJECTS, stop, stop)
    else:
        crew.in_step(OBJECTS, start, *draw.choice([[stop], [stop, stop, receive, receive]]))
    for number, timer in enumerate(timers):
        stop(number)
        with pytest.raises(WouldBlock):
            timer.c.receive_nowait()
        ended = len(prevented[number]) + len(received[number])
        assert ended <= 1, "fired and prevented, or twice"
        assert ended == 1 or delay < 60, "nobody has prevented it"
    return OBJECTS


def hammer_a_timer(crew: Crew, draw: Random) -> int:
    """All call all methods of one timer: no more times than starts."""
    timer = Timer()
    starts: list[None] = []
    stops: list[None] = []
    times: list[float] = []
    ended: list[None] = []

    def start() -> None:
        for _ in range(STARTS):
            starts.append(None)
            timer.start(draw.choice([0, 1e-5]))
        ended.append(None)

    def stop() -> None:
        while len(ended) < 2:
            if timer.stop():
                stops.append(None)

    def receive() -> None:
        while len(ended) < 2:
            with suppress(TimeoutError):
                times.append(timer.c.receive(1e-3))

    async def receive_async() -> None:
        while len(ended) < 2:
            with suppress(TimeoutError):
                times.append(await timer.c.receive_async(1e-3))
            await asyncio.sleep(0)

    crew.play(start, start, stop, stop, receive, receive_async)
    timer.stop()
    assert len(times) + len(stops) <= len(starts), "more times than starts"
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    timer.start(0)
    assert timer.c.receive(10) > 0
    return len(starts)


STORMS = {"timers in step": race_for_timers, "a timer": hammer_a_timer}
