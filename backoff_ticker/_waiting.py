"""One way to wait, for threads and event loops; the only room that touches asyncio.

A waiter registers with every source it waits for (a ticker's readers, a token), looks again,
parks, and always leaves. A wake-up carries nothing: it says "look again", and what is waited for
stays where it is until somebody takes it. A source calls ``wake()`` on whatever registered and
never knows whether a thread or a loop waits.

Invariants:
    * Registering comes before the last look, so a wake-up after that look is never lost.
    * Whoever leaves passes on what it may have swallowed: see ``leave``.
    * Nothing here takes a lock, so sources may be closed in signal handlers and finalizers;
      dictionary operations on keys without Python code are atomic.
"""

from __future__ import annotations

from . import _fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from ._protocols import Clock, TimerHandle

__all__ = [
    "FOREVER",
    "LoopWaiter",
    "ThreadWaiter",
    "WaitLine",
    "WaitSet",
    "Waiter",
    "cancelled_error",
    "current_loop",
    "current_task",
    "give_way",
    "park_coroutine",
    "park_thread",
]

FOREVER = float("inf")
"""What a look answers when only a wake-up can bring news."""


class Waiter:
    """One registration: woken at most usefully once, by any thread or loop.

    Attributes:
        loop: The event loop in which ``fire`` must run; None: call ``wake`` anywhere.
        relays: Whether it leaves as soon as it is woken, so that waking the others can be left
            to it: true of threads, which would only fight for the interpreter if woken at once.
        generation: The process that registered it; in a forked child its thread is gone.
    """

    __slots__ = ("generation",)

    loop: asyncio.AbstractEventLoop | None = None
    relays = False

    def __init__(self) -> None:
        self.generation = _fork.generation

    @property
    def world(self) -> object:
        """Those that run when it runs: its loop, or None for all threads."""
        return self.loop

    def wake(self) -> None:
        """Have it look again. From any thread, signal handler or finalizer; raises nothing."""
        if self.loop is not None:
            _fire_in(self.loop, (self,))

    def fire(self) -> None:
        """Look again; called in the waiter's own loop."""


class ThreadWaiter(Waiter):
    """A thread in one wait."""

    __slots__ = ("_parker",)

    relays = True

    def __init__(self, clock: Clock, what: str) -> None:
        self.generation = _fork.generation
        self._parker = clock.parker(what)

    def park(self, deadline: float) -> None:
        """Wait until woken or until ``deadline``."""
        self._parker.park(None if deadline == FOREVER else deadline)

    def wake(self) -> None:
        """Unpark the thread."""
        self._parker.unpark()


class LoopWaiter(Waiter):
    """A coroutine in one wait."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.generation = _fork.generation
        self.loop = current_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()

    def fire(self) -> None:
        """Resolve the future, unless the coroutine was cancelled or woken before."""
        if not self.future.done():
            self.future.set_result(None)


def _fire_in(loop: asyncio.AbstractEventLoop, waiters: Iterable[Waiter]) -> None:
    try:
        loop.call_soon_threadsafe(_fire_all, waiters)
    except RuntimeError:
        pass  # that loop is closed: nobody waits there any more, and the others must still wake


def _fire_all(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        waiter.fire()


class WaitSet:
    """Those who wait for something that happens once and for all, such as a cancel."""

    __slots__ = ("closed", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.closed = False

    def add(self, waiter: Waiter) -> None:
        """Register ``waiter``; it must look again afterwards."""
        self.waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and, if all are being woken, wake the next. Harmless twice."""
        self.waiters.pop(waiter, None)
        if self.closed:
            self._wake_first()

    def _wake_first(self) -> None:
        """Wake whoever has waited longest in this process."""
        while True:
            try:
                first = next(iter(self.waiters), None)
            except RuntimeError:
                continue  # it changed between the two calls
            if first is None:
                return
            if first.generation == _fork.generation:
                first.wake()
                return
            self.waiters.pop(first, None)

    def close(self) -> None:
        """Wake all, now and whoever still registers; calling it again helps a call cut short.

        Coroutines are woken by one call into each loop. Of the threads the first is woken, and
        each wakes the next as it leaves: thousands at once would fight for the interpreter.
        """
        self.closed = True
        loops: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
        for waiter in list(self.waiters):
            if waiter.loop is not None:
                loops.setdefault(waiter.loop, []).append(waiter)
            elif not waiter.relays:
                waiter.wake()
        for loop, waiters in loops.items():
            _fire_in(loop, waiters)
            for waiter in waiters:
                self.waiters.pop(waiter, None)
        self._wake_first()


class WaitLine(WaitSet):
    """Those who wait, first come first served, for things that come one by one.

    The first of each world (the threads, each loop) leads it: it alone watches the time, the
    others only wait for a wake-up. So whoever leaves wakes the first of its world, which may now
    lead, and a loop that is blocked, stopped or closed holds up nobody but itself.
    """

    __slots__ = ()

    def _in_line(self) -> list[Waiter]:
        waiters = list(self.waiters)
        for waiter in waiters:
            if waiter.generation != _fork.generation:
                self.waiters.pop(waiter, None)
        return [waiter for waiter in waiters if waiter.generation == _fork.generation]

    def leads(self, waiter: Waiter) -> bool:
        """Whether ``waiter`` is the first of its world."""
        for other in self._in_line():
            if other.world is waiter.world:
                return other is waiter
        return True

    def wake_firsts(self) -> None:
        """Wake the first of each world."""
        worlds: dict[object, Waiter] = {}
        for waiter in self._in_line():
            worlds.setdefault(waiter.world, waiter)
        for waiter in worlds.values():
            waiter.wake()

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and wake whoever leads its world now. Harmless twice."""
        self.waiters.pop(waiter, None)
        if self.waiters:
            for other in self._in_line():
                if other.world is waiter.world:
                    other.wake()
                    return


def _leave_all(waiter: Waiter, sources: Iterable[WaitSet]) -> None:
    for source in sources:
        source.leave(waiter)


def park_thread(
    clock: Clock,
    what: str,
    sources: Iterable[WaitSet],
    look: Callable[[Waiter], float | None],
) -> None:
    """Wait in this thread until one of ``sources`` wakes it, or until the time that ``look`` says.

    Args:
        clock: Measures the wait.
        what: Names the wait in a clock's reports.
        sources: Where to register.
        look: Called once registered: returns None if there is no need to wait, ``FOREVER``, or a
            deadline on ``clock``.
    """
    waiter = ThreadWaiter(clock, what)
    try:
        for source in sources:
            source.add(waiter)
        deadline = look(waiter)
        if deadline is not None:
            waiter.park(deadline)
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
    sources: Iterable[WaitSet],
    look: Callable[[Waiter], float | None],
) -> None:
    """Wait in this coroutine as ``park_thread`` does in a thread."""
    waiter = LoopWaiter()
    timer: TimerHandle | None = None
    try:
        for source in sources:
            source.add(waiter)
        deadline = look(waiter)
        if deadline is not None:
            if deadline != FOREVER:
                timer = clock.call_at(deadline, waiter.fire, loop=waiter.loop)
            await waiter.future
    finally:
        if timer is not None:
            timer.cancel()
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
