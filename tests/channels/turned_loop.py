"""An event loop and a clock that a test moves on by hand, and the tasks that wait there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from backoff_ticker import ChannelClosed, WouldBlock
from tests.helpers import SetClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


@dataclass(eq=False)
class Timer:
    """A callback at a time; a test fires it."""

    when: float
    callback: Any
    live: bool = True

    def cancel(self) -> bool:
        was, self.live = self.live, False
        return was

    def fire(self) -> None:
        if self.cancel():
            self.callback()


class TurnedClock(SetClock):
    """A clock that calls back in a loop when time is moved on."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[Timer] = []

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Timer:
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

    def fire(self) -> None:
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

    def outcome(self) -> Any:
        if self.task.cancelled():
            return asyncio.CancelledError
        error = self.task.exception()
        return self.task.result() if error is None else type(error)


class TurnedLoop:
    """An event loop that runs when told, and until nothing in it is ready."""

    def __init__(self, clock: TurnedClock) -> None:
        self.clock = clock
        self.loop = asyncio.new_event_loop()

    def turn(self) -> None:
        for _ in range(6):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def start(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None) -> Waiting:
        deadline = inf if timeout is None else self.clock.now + timeout
        return Waiting(self.loop.create_task(coroutine), deadline)

    def close(self) -> None:
        self.loop.close()


def outcome_of(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call that does not wait returns, or the class of its error."""
    try:
        return call(*args)
    except (ChannelClosed, TimeoutError, WouldBlock) as error:
        return type(error)
