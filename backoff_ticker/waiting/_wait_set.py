"""Waiters, and the sets in which they register with what they wait for.

Whatever can be waited for (a token, the readers of a ticker, a channel) owns a wait set and wakes
the waiters in it, without knowing whether a thread or a coroutine waits. A wake-up carries no
value: it means "check again", and the value stays where it is until a reader takes it.

Nothing here takes a lock, so wake-ups may come from signal handlers and finalizers. Everything is
done by single operations of dicts whose keys run no Python code; those are atomic.
"""

from __future__ import annotations

from .. import _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection, Iterable
    from typing import TypeVar, Unpack

    from typing_extensions import TypeVarTuple

    T = TypeVar("T")
    Ts = TypeVarTuple("Ts")

NO_DEADLINE = float("inf")
"""The deadline of a wait that only a wake-up ends."""


class Waiter:
    """One wait of a thread or a coroutine; any thread or loop may wake it any number of times.

    Attributes:
        sources: Where it is registered.
        limit: When it gives up, in monotonic seconds, or ``NO_DEADLINE``.
        generation: The process generation that it belongs to. In a forked child the threads and
            loops of the parent no longer run.
        loop: The event loop in which ``fire()`` must run; None: ``wake()`` may be called anywhere.
        chains_wakeups: Whether it leaves as soon as it is woken, so that a set that is closed
            wakes only the first such waiter, and each wakes the next as it leaves. Many threads
            woken at once would only compete for the interpreter.
    """

    __slots__ = ("generation", "limit", "sources")

    loop: AbstractEventLoop | None = None
    chains_wakeups = False

    def __init__(self, sources: Collection[WaitSet] = (), limit: float = NO_DEADLINE) -> None:
        self.generation: int = _process.generation
        self.sources: Collection[WaitSet] = sources
        self.limit: float = limit

    @property
    def wake_domain(self) -> object:
        """Waiters with the same wake domain share one leader, which alone watches the time.

        By default the domain is the loop, or None: all threads are one domain.
        """
        return self.loop

    @property
    def is_stale(self) -> bool:
        """Whether it cannot be woken any more: the process has forked, or the loop was closed."""
        loop = self.loop
        return self.generation != _process.generation or (loop is not None and loop.is_closed())

    def wake(self) -> bool:
        """Make it check again. From any thread, signal handler or finalizer; raises nothing.

        Returns:
            False if it cannot be reached any more.
        """
        return self.loop is not None and _fire_in(self.loop, (self,))

    def fire(self) -> None:
        """Check again; called in the waiter's own loop."""


def _fire_in(loop: AbstractEventLoop, waiters: Iterable[Waiter]) -> bool:
    try:
        loop.call_soon_threadsafe(_fire_all, waiters)
    except RuntimeError:
        return False  # the loop is closed, with its waiters
    return True


def _fire_all(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        waiter.fire()


def complete(end: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Call ``end(*args)``, which marks something as ended and tells everybody who waits for it.

    If a signal handler raises in the middle, ``end`` is called again before the exception goes on:
    nobody is left waiting for something that has ended. So ``end`` must be repeatable.
    """
    try:
        return end(*args)
    except BaseException:
        end(*args)
        raise


class WaitSet:
    """Waiters for something that happens once, such as the cancel of a token.

    Attributes:
        waiters: Those registered, in the order in which they came.
        closed: Whether it has happened.
    """

    __slots__ = ("closed", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.closed: bool = False

    def add(self, waiter: Waiter) -> None:
        """Register ``waiter``, which must check again afterwards."""
        self.waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and, once the set is closed, wake the next. May be repeated."""
        self.waiters.pop(waiter, None)
        if self.closed and self.waiters:
            self._wake_first()

    def close(self) -> None:
        """Wake all waiters; calling it again completes a call that was cut short.

        Waiters that register later find out by their check. Coroutines are woken by one call into
        each loop. Of the threads that chain wake-ups only the first is woken; each wakes the next
        as it leaves.
        """
        self.closed = True
        generation, forget = _process.generation, self.waiters.pop
        loops: dict[AbstractEventLoop, list[Waiter]] = {}
        for waiter in list(self.waiters):
            loop = waiter.loop
            if waiter.generation != generation:
                forget(waiter, None)
            elif loop is not None:
                if loop in loops:
                    loops[loop].append(waiter)
                else:
                    loops[loop] = [waiter]
            elif not waiter.chains_wakeups:
                waiter.wake()
                forget(waiter, None)
        for loop, waiters in loops.items():
            _fire_in(loop, waiters)
            for waiter in waiters:
                forget(waiter, None)
        self._wake_first()

    def _wake_first(self) -> None:
        """Wake the waiter of this process that has waited longest."""
        while True:
            try:
                first = next(iter(self.waiters), None)
            except RuntimeError:
                continue  # the dict changed between iter() and next()
            if first is None:
                return
            if first.generation == _process.generation:
                first.wake()
                return
            self.waiters.pop(first, None)


class WaitLine(WaitSet):
    """Waiters for values that come one by one at times known beforehand, such as ticks.

    In each wake domain the first waiter leads: it alone watches the time, the others only wait for
    a wake-up. A waiter that leaves wakes the first of its domain, which may lead now. A loop that
    is blocked, stopped or closed therefore delays only its own waiters.
    """

    __slots__ = ()

    def leads(self, waiter: Waiter) -> bool:
        """Whether ``waiter`` is the first of its wake domain."""
        try:
            if next(iter(self.waiters), None) is waiter:
                return True
        except RuntimeError:
            pass  # the dict changed between iter() and next()
        return self._first_of(waiter.wake_domain) in (waiter, None)

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and wake the one that leads its domain now. May be repeated."""
        self.waiters.pop(waiter, None)
        if self.waiters:
            first = self._first_of(waiter.wake_domain)
            if first is not None:
                first.wake()

    def wake_firsts(self) -> None:
        """Wake the first waiter of each domain."""
        firsts: dict[object, Waiter] = {}
        for waiter in self._reachable():
            firsts.setdefault(waiter.wake_domain, waiter)
        for waiter in firsts.values():
            waiter.wake()

    def _first_of(self, wake_domain: object) -> Waiter | None:
        for waiter in self._reachable():
            if waiter.wake_domain is wake_domain:
                return waiter
        return None

    def _reachable(self) -> list[Waiter]:
        """Return the waiters that can still be woken, and forget the others."""
        waiters = []
        for waiter in list(self.waiters):
            if waiter.is_stale:
                self.waiters.pop(waiter, None)
            else:
                waiters.append(waiter)
        return waiters


class WaitQueue(WaitSet):
    """Waiters for values that each go to one waiter, such as the items of a channel.

    A wake-up takes the longest waiting waiter out of the queue, so the next value wakes the next
    waiter. A waiter that was woken and waits on registers again before it checks; one that leaves
    without a value wakes the next.
    """

    __slots__ = ()

    def wake_next(self) -> None:
        """Wake the waiter that has waited longest, if there is one that can be reached."""
        waiters = self.waiters
        while waiters:
            try:
                first = next(iter(waiters))
                # ATOMIC: no call between this deletion, after which only this thread can wake the
                # waiter, and the `try` that wakes it whatever interrupts it.
                del waiters[first]
            except (KeyError, RuntimeError, StopIteration):
                continue  # another wake-up came in between
            try:
                if first.generation == _process.generation and first.wake():
                    return
            except BaseException:
                first.wake()
                raise
            self.leave(first)
