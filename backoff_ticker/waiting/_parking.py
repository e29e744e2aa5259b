"""One way to wait, for threads and event loops; the only room that touches asyncio.

A waiter registers with every source it waits for, looks again, parks, and always leaves.

Invariants:
    * Registering comes before the last look, so a wake-up after that look is never lost.
    * Whoever leaves passes on what it may have swallowed: see ``WaitSet.leave``.
    * asyncio is imported by the first coroutine that waits, never by a thread.
"""

from __future__ import annotations

import threading
from sys import modules

from .. import _process
from .._unraisable import report
from ._wait_set import Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from ..clock import Clock
    from ._wait_set import WaitSet

    Sources = Collection[WaitSet]

NO_DEADLINE = float("inf")
"""What a look answers when only a wake-up can bring news."""


class _Parked(Waiter):
    """A waiter that waits for itself.

    Attributes:
        sources: Where it is registered.
        limit: Until when it waits at the most.
    """

    __slots__ = ("limit", "sources")

    sources: Sources
    limit: float


class ThreadWaiter(_Parked):
    """A thread in one wait.

    The main thread keeps to itself: a signal handler may hold it up for any time in the middle of
    its wait, and nobody's wake-up should hang on that.
    """

    __slots__ = ("_parker", "chains_wakeups")

    def __init__(
        self, clock: Clock, what: str, sources: Sources = (), limit: float = NO_DEADLINE
    ) -> None:
        self.generation = _process.generation
        self.sources = sources
        self.limit = limit
        self.chains_wakeups = threading.get_ident() != threading.main_thread().ident
        self._parker = clock.parker(what)

    @property
    def wake_domain(self) -> object:
        """None for all threads but the main one."""
        return None if self.chains_wakeups else self

    def park(self, deadline: float) -> bool:
        """Wait until woken (True) or until ``deadline`` (False)."""
        return self._parker.park(None if deadline == NO_DEADLINE else deadline)

    def wake(self) -> bool:
        """Unpark the thread."""
        try:
            self._parker.unpark()
        except Exception as error:  # noqa: BLE001 - a clock's error must not leave others waiting
            report(error, "Exception in unpark() of a clock's parker", self._parker)
        return True


class LoopWaiter(_Parked):
    """A coroutine in one wait."""

    __slots__ = ("future", "loop")

    loop: asyncio.AbstractEventLoop  # type: ignore[mutable-override]  # it always has one

    def __init__(self, sources: Sources = (), limit: float = NO_DEADLINE) -> None:
        self.generation = _process.generation
        self.sources = sources
        self.limit = limit
        self.loop = current_loop()
        self.future: asyncio.Future[None] | None = None

    def wake(self) -> bool:
        """Fire at once in a task of its own loop, else by a call into that loop.

        Outside a task it may be a signal handler that calls, while the loop already sleeps. Before
        there is a future it may be one, or a finalizer, in the middle of ``park_coroutine``.
        """
        future = self.future
        if future is not None and not future.done() and _runs_a_task(self.loop):
            self.fire()
            return True
        return super().wake()

    def fire(self) -> None:
        """Resolve the future it is parked on, unless it was cancelled or woken before."""
        future = self.future
        if future is not None and not future.done():
            try:
                future.set_result(None)
            except modules["asyncio"].InvalidStateError:
                pass  # a signal handler that came between has resolved it


def _runs_a_task(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread is in a task of ``loop``."""
    asyncio = modules["asyncio"]
    return asyncio._get_running_loop() is loop and asyncio.current_task(loop) is not None


def _leave_all(waiter: Waiter, sources: Sources) -> None:
    for source in sources:
        source.leave(waiter)


def park_thread(
    clock: Clock,
    what: str,
    sources: Sources,
    look: Callable[[ThreadWaiter], float | None],
    limit: float = NO_DEADLINE,
) -> None:
    """Wait in this thread until ``look`` says that there is no need to, or a time it said comes.

    Args:
        clock: Measures the wait.
        what: Names the wait in a clock's reports.
        sources: Where to register.
        look: Called once registered, and after each wake-up: returns None if there is no need to
            wait, ``NO_DEADLINE``, or a deadline on ``clock``.
        limit: Until when to wait at the most, for ``look`` to find in the waiter.
    """
    waiter = ThreadWaiter(clock, what, sources, limit)
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
    look: Callable[[LoopWaiter], float | None],
    limit: float = NO_DEADLINE,
) -> None:
    """Wait in this coroutine as ``park_thread`` does in a thread."""
    waiter = LoopWaiter(sources, limit)
    loop = waiter.loop
    try:
        for source in sources:
            source.add(waiter)
        woken = True
        while woken and (deadline := look(waiter)) is not None:
            # Nothing runs in this loop before the await, so no wake-up comes before the future.
            waiter.future = loop.create_future()
            if deadline == NO_DEADLINE:
                await waiter.future
                continue
            timer = clock.call_at(deadline, waiter.fire, loop=loop)
            try:
                await waiter.future
            finally:
                woken = timer.cancel()
    finally:
        try:
            _leave_all(waiter, sources)
        except BaseException:
            _leave_all(waiter, sources)
            raise


def current_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread.

    Raises:
        RuntimeError: None does.
    """
    if "asyncio" not in modules:
        import asyncio  # noqa: F401 - an import statement costs more than the look for it
    return modules["asyncio"].get_running_loop()  # type: ignore[no-any-return]


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


checkpoint = _GiveWay()
"""Awaited, it lets the loop run everything else that is ready, once."""

CHECKPOINT_EVERY = 64
"""Of so many who need not wait, one after the other, one gives way nevertheless."""
