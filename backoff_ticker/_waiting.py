"""One way to wait, for threads and event loops; the only room that touches asyncio.

A waiter registers with every source it waits for, looks again, parks, and always leaves.

Invariants:
    * Registering comes before the last look, so a wake-up after that look is never lost.
    * Whoever leaves passes on what it may have swallowed: see ``WaitSet.leave``.
    * asyncio is imported by the first coroutine that waits, never by a thread.
"""

from __future__ import annotations

import threading

from . import _fork
from ._report import report
from ._wait_set import Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ._protocols import Clock, TimerHandle
    from ._wait_set import WaitSet

    Sources = tuple[WaitSet, ...]

__all__ = [
    "FOREVER",
    "LoopWaiter",
    "ThreadWaiter",
    "cancelled_error",
    "current_loop",
    "current_task",
    "give_way",
    "park_coroutine",
    "park_thread",
]

FOREVER = float("inf")
"""What a look answers when only a wake-up can bring news."""


class ThreadWaiter(Waiter):
    """A thread in one wait.

    The main thread keeps to itself: a signal handler may hold it up for any time in the middle of
    its wait, and nobody's wake-up should hang on that.
    """

    __slots__ = ("_parker", "relays")

    def __init__(self, clock: Clock, what: str) -> None:
        self.generation = _fork.generation
        self.relays = threading.get_ident() != threading.main_thread().ident
        self._parker = clock.parker(what)

    @property
    def world(self) -> object:
        """None for all threads but the main one."""
        return None if self.relays else self

    def park(self, deadline: float) -> bool:
        """Wait until woken (True) or until ``deadline`` (False)."""
        return self._parker.park(None if deadline == FOREVER else deadline)

    def wake(self) -> None:
        """Unpark the thread."""
        try:
            self._parker.unpark()
        except Exception as error:  # noqa: BLE001 - a clock's error must not leave others waiting
            report(error, "Exception in unpark() of a clock's parker", self._parker)


class LoopWaiter(Waiter):
    """A coroutine in one wait."""

    __slots__ = ("_future", "loop")

    def __init__(self) -> None:
        self.generation = _fork.generation
        loop = current_loop()
        self.loop = loop
        self._future: asyncio.Future[None] = loop.create_future()

    def fire(self) -> None:
        """Resolve the future, unless the coroutine was cancelled or woken before."""
        if not self._future.done():
            self._future.set_result(None)

    async def park(self, clock: Clock, deadline: float) -> bool:
        """Wait until woken (True) or until ``deadline`` (False)."""
        timer: TimerHandle | None = None
        if deadline != FOREVER:
            timer = clock.call_at(deadline, self.fire, loop=self.loop)
        try:
            await self._future
        finally:
            woken = timer is None or timer.cancel()
        self._future = self._future.get_loop().create_future()
        return woken


def _leave_all(waiter: Waiter, sources: Sources) -> None:
    for source in sources:
        source.leave(waiter)


def park_thread(
    clock: Clock,
    what: str,
    sources: Sources,
    look: Callable[[Waiter], float | None],
) -> None:
    """Wait in this thread until ``look`` says that there is no need to, or a time it said comes.

    Args:
        clock: Measures the wait.
        what: Names the wait in a clock's reports.
        sources: Where to register.
        look: Called once registered, and after each wake-up: returns None if there is no need to
            wait, ``FOREVER``, or a deadline on ``clock``.
    """
    waiter = ThreadWaiter(clock, what)
    try:
        for source in sources:
            source.add(waiter)
        while (deadline := look(waiter)) is not None and waiter.park(deadline):
            pass
    finally:
        # An interrupt can hit the first call of a finally clause; two in a row would have to
        # fall within these few instructions.
        try:
            _leave_all(waiter, sources)
        except BaseException:
            _leave_all(waiter, sources)
            raise


async def park_coroutine(
    clock: Clock,
    sources: Sources,
    look: Callable[[Waiter], float | None],
) -> None:
    """Wait in this coroutine as ``park_thread`` does in a thread."""
    waiter = LoopWaiter()
    try:
        for source in sources:
            source.add(waiter)
        while (deadline := look(waiter)) is not None and await waiter.park(clock, deadline):
            pass
    finally:
        _leave_all(waiter, sources)


def current_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread.

    Raises:
        RuntimeError: None does.
    """
    import asyncio

    return asyncio.get_running_loop()


def current_task() -> asyncio.Task[object]:
    """Return the task that runs in this thread.

    Raises:
        RuntimeError: None does.
    """
    import asyncio

    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("no task is running")
    return task


def cancelled_error() -> type[BaseException]:
    """Return ``asyncio.CancelledError``."""
    import asyncio

    return asyncio.CancelledError


class _GiveWay:
    __slots__ = ()

    def __await__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
        yield


give_way = _GiveWay()
"""Awaited, it lets the loop run everything else that is ready, once."""
