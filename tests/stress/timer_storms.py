"""Storms over timers: each start fires once or is prevented once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import Timer, WouldBlock
from tests.stress.crew import RACES, cast, lists

if TYPE_CHECKING:
    from random import Random

    from tests.stress.crew import Crew, Face

STARTS = 60
"""Of each thread that starts a timer."""


def race_for_timers(crew: Crew, draw: Random) -> int:
    """Start, stop and receive one timer after the other, in step: one of them gets it."""
    delay = draw.choice([0, 1e-5, 5e-5, 60])
    timers = [Timer() for _ in range(RACES)]
    ends = lists()

    def start(number: int) -> None:
        timers[number].start(delay)

    def stop(number: int) -> None:
        if timers[number].stop():
            ends[number].append("prevented")

    def receive(number: int) -> None:
        with suppress(TimeoutError):
            ends[number].append(timers[number].c.receive(draw.choice([0, 1e-4])))

    if delay == 60:
        for number in range(RACES):
            start(number)
        crew.in_step(stop, stop)
    else:
        crew.in_step(start, *draw.choice([[stop], [stop, stop, receive, receive]]))
    for number, timer in enumerate(timers):
        stop(number)
        with pytest.raises(WouldBlock):
            timer.c.receive_nowait()
        assert len(ends[number]) <= 1, "fired and prevented, or twice"
        assert ends[number] or delay < 60, "nobody has prevented it"
    return RACES


def hammer_a_timer(crew: Crew, draw: Random) -> int:
    """All call all methods of one timer: no more times than starts."""
    timer = Timer()
    starts: list[None] = []
    ends: list[object] = []
    done: list[None] = []

    def start() -> None:
        for _ in range(STARTS):
            starts.append(None)
            timer.start(draw.choice([0, 1e-5]))
        done.append(None)

    def stop() -> None:
        while len(done) < 2:
            if timer.stop():
                ends.append("prevented")

    async def receive(face: Face) -> None:
        while len(done) < 2:
            with suppress(TimeoutError):
                ends.append(await face.wait(timer.c.receive, timer.c.receive_async, 1e-3))
            await face.give_way()

    crew.play(start, start, stop, stop, *cast(receive, 1, 1))
    timer.stop()
    assert len(ends) <= len(starts), "more times than starts"
    with pytest.raises(WouldBlock):
        timer.c.receive_nowait()
    timer.start(0)
    assert timer.c.receive(10) > 0
    return len(starts)


STORMS = {"timers in step": race_for_timers, "a timer": hammer_a_timer}
