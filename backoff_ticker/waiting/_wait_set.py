"""Those who wait for a source, and how it wakes them: everything but the wait itself.

A source (a token, a ticker's line of readers) calls ``wake()`` on whatever registered and never
knows whether a thread or a loop waits. A wake-up carries nothing: it says "look again", and what
is waited for stays where it is until somebody takes it.

Nothing here takes a lock, so sources may be closed in signal handlers and finalizers; operations
on dictionaries whose keys run no Python code are atomic.
"""

from __future__ import annotations

from .. import _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Iterable


class Waiter:
    """One registration; may be woken any number of times, by any thread or loop.

    Attributes:
        loop: The event loop in which ``fire`` must run; None: call ``wake`` anywhere.
        relays: Whether it leaves as soon as it is woken, so that waking the others can be left
            to it: true of all threads but the main one, which would only fight for the
            interpreter if woken at once.
        generation: The process that registered it; in a forked child its thread is gone.
    """

    __slots__ = ("generation",)

    loop: AbstractEventLoop | None = None
    chains_wakeups = False

    def __init__(self) -> None:
        self.generation: int = _process.generation

    @property
    def wake_domain(self) -> object:
        """Those of whom one is enough to watch the time.

        Its loop; None for threads; itself if it stands alone.
        """
        return self.loop

    @property
    def is_stale(self) -> bool:
        """Whether it waits no more: its process forked, or its loop was closed."""
        loop = self.loop
        return self.generation != _process.generation or (loop is not None and loop.is_closed())

    def wake(self) -> bool:
        """Have it look again. From any thread, signal handler or finalizer; raises nothing.

        Returns False if it cannot be reached any more.
        """
        return self.loop is not None and _fire_in(self.loop, (self,))

    def fire(self) -> None:
        """Look again; called in the waiter's own loop."""


def _fire_in(loop: AbstractEventLoop, waiters: Iterable[Waiter]) -> bool:
    try:
        loop.call_soon_threadsafe(_fire_all, waiters)
    except RuntimeError:
        return False  # that loop is closed: nobody waits there any more
    return True


def _fire_all(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        waiter.fire()


class WaitSet:
    """Those who wait for something that happens once and for all, such as a cancel."""

    __slots__ = ("closed", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.closed: bool = False

    def add(self, waiter: Waiter) -> None:
        """Register ``waiter``; it must look again afterwards."""
        self.waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and, if all are being woken, wake the next. Harmless twice."""
        self.waiters.pop(waiter, None)
        if self.closed and self.waiters:
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
            if first.generation == _process.generation:
                first.wake()
                return
            self.waiters.pop(first, None)

    def close(self) -> None:
        """Wake all, now and whoever still registers; calling it again helps a call cut short.

        Coroutines are woken by one call into each loop. Of the threads that relay the first is
        woken, and each wakes the next as it leaves.
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


class WaitLine(WaitSet):
    """Those who wait for things that come one by one.

    The first of each world (see ``Waiter.world``) leads it: it alone watches the time, the
    others only wait for a wake-up. So whoever leaves wakes the first of its world, which may now
    lead, and a loop that is blocked, stopped or closed holds up nobody but itself.
    """

    __slots__ = ()

    def _in_line(self) -> list[Waiter]:
        """Return those who can still be woken; forget the others."""
        waiters = []
        for waiter in list(self.waiters):
            if waiter.is_stale:
                self.waiters.pop(waiter, None)
            else:
                waiters.append(waiter)
        return waiters

    def _first(self, wake_domain: object) -> Waiter | None:
        for waiter in self._in_line():
            if waiter.wake_domain is wake_domain:
                return waiter
        return None

    def leads(self, waiter: Waiter) -> bool:
        """Whether ``waiter`` is the first of its world."""
        try:
            if next(iter(self.waiters), None) is waiter:
                return True
        except RuntimeError:
            pass  # it changed between the two calls
        return self._first(waiter.wake_domain) in (waiter, None)

    def wake_firsts(self) -> None:
        """Wake the first of each world."""
        worlds: dict[object, Waiter] = {}
        for waiter in self._in_line():
            worlds.setdefault(waiter.wake_domain, waiter)
        for waiter in worlds.values():
            waiter.wake()

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and wake whoever leads its world now. Harmless twice."""
        self.waiters.pop(waiter, None)
        if self.waiters:
            first = self._first(waiter.wake_domain)
            if first is not None:
                first.wake()


class WaitQueue(WaitSet):
    """Those of whom each thing that comes is enough for one.

    A wake-up goes to whoever has waited longest and takes it out of the queue, so the next thing
    wakes the next. Whoever was woken and waits on adds itself again before it looks; whoever
    leaves without what it was woken for wakes the next.
    """

    __slots__ = ()

    def wake_next(self) -> None:
        """Wake whoever has waited longest, if anybody waits who can still be reached."""
        waiters = self.waiters
        while waiters:
            try:
                first = next(iter(waiters))
                del waiters[first]
            except (KeyError, RuntimeError, StopIteration):
                continue  # another wake-up came between
            # From the deletion on this call owes the wake-up, whatever interrupts it.
            try:
                if first.generation == _process.generation and first.wake():
                    return
            except BaseException:
                first.wake()
                raise
            self.leave(first)
