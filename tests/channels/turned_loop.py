"""An event loop and a clock that a test moves on by hand, and the tasks that wait there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import Any

from backoff_ticker import ChannelClosed, WouldBlock
from tests.helpers import SetClock


@dataclass(eq=False)
class Timer:
    """A callback at a time; a test fires it."""

    when: float
    callback: Any
    live: bool = True

    def cancel(self):
        was, self.live = self.live, False
        return was

    def fire(self):
        if self.cancel():
            self.callback()


class TurnedClock(SetClock):
    """A clock that calls back in a loop when time is moved on."""

    def __init__(self):
        super().__init__()
        self.timers = []

    def call_at(self, when, callback, *, loop=None):
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

    def fire(self):
        due = [timer for timer in self.timers if timer.when <= self.now]
        self.timers = [timer for timer in self.timers if timer.when > self.now]
        for timer in due:
            timer.fire()


@dataclass(eq=False)
class Waiting:
    """A task that waits to send ``item``, or to receive."""

    task: asyncio.Task[Any]
    deadline: float
    item: int | None = None

    def outcome(self):
        if self.task.cancelled():
            return asyncio.CancelledError
        error = self.task.exception()
        return self.task.result() if error is None else type(error)


class TurnedLoop:
    """An event loop that runs when told, and until nothing in it is ready."""

    def __init__(self, clock):
        self.clock = clock
        self.loop = asyncio.new_event_loop()

    def turn(self):
        for _ in range(6):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def start(self, coroutine, timeout):
        deadline = inf if timeout is None else self.clock.now + timeout
        return Waiting(self.loop.create_task(coroutine), deadline)

    def close(self):
        self.loop.close()


def outcome_of(call, *args):
    """Return what a call that does not wait returns, or the class of its error."""
    try:
        return call(*args)
    except (ChannelClosed, TimeoutError, WouldBlock) as error:
        return type(error)
