"""Waiters, and the sets in which they register with what they wait for.

Whatever can be waited for (a token, the readers of a ticker, a channel) owns a wait set and wakes
the waiters in it, without knowing whether a thread or a coroutine waits. A wake-up carries no
value: it means "check again", and the value stays where it is until a reader takes it.

Each set has the waiters of a wake domain in a line of their own, so that the first of each domain
is found at once, however many wait.

Nothing here takes a lock, so wake-ups may come from signal handlers and finalizers. Everything is
done by single operations of dicts whose keys run no Python code; those are atomic.
"""

from __future__ import annotations

from collections import OrderedDict
from weakref import ref

from .. import _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection, Iterable
    from typing import Any, TypeVar, Unpack

    from typing_extensions import TypeVarTuple

    T = TypeVar("T")
    Ts = TypeVarTuple("Ts")

    # A plain dict would look through all the places at its front that have become empty.
    Line = OrderedDict[ref["Waiter"], None]

NO_DEADLINE = float("inf")
"""The deadline of a wait that only a wake-up ends."""

THREADS = 0
"""The wake domain of all threads except the main thread."""

ALONE = 1
"""In place of a wake domain: the waiter has one of its own."""


class Waiter:
    """One wait of a thread or a coroutine; any thread or loop may wake it any number of times.

    The code that waits keeps it alive; for a task its loop does: see ``hold()``. The sets hold it
    weakly, so that an event loop that is dropped is collected with its coroutines, whatever they
    wait for.

    Attributes:
        sources: Where it is registered.
        limit: When it gives up, in monotonic seconds, or ``NO_DEADLINE``.
        generation: The process generation that it belongs to. In a forked child the threads and
            loops of the parent no longer run.
        ref: The weak reference to it that stands in the sets.
        loop: The event loop in which ``fire()`` must run; None: ``wake()`` may be called anywhere.
        chains_wakeups: Whether it leaves as soon as it is woken, so that a set that is closed
            wakes only the first such waiter, and each wakes the next as it leaves. Many threads
            woken at once would only compete for the interpreter.
    """

    __slots__ = ("__weakref__", "generation", "limit", "ref", "sources")

    loop: AbstractEventLoop | None = None
    chains_wakeups = False

    def __init__(self, sources: Collection[WaitSet] = (), limit: float = NO_DEADLINE) -> None:
        self.generation: int = _process.generation
        self.sources: Collection[WaitSet] = sources
        self.limit: float = limit
        self.ref: ref[Waiter] = ref(self)

    @property
    def wake_domain(self) -> int:
        """Waiters with the same wake domain share one leader, which alone watches the time.

        It is the identity of the loop (a reference would keep the loop alive), ``THREADS``, or
        ``ALONE``.
        """
        if self.loop is not None:
            return id(self.loop)
        return THREADS if self.chains_wakeups else ALONE

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

    def hold(self) -> None:
        """Have its loop keep it alive, and with it the task: asyncio holds tasks weakly."""
        loop: Any = self.loop
        try:
            loop._backoff_ticker_waiters.add(self)
        except AttributeError:
            try:
                loop._backoff_ticker_waiters = {self}
            except AttributeError:
                pass  # a loop that takes no attributes: the program has to hold its tasks

    def release(self) -> None:
        """Undo ``hold()``. May be repeated."""
        held = getattr(self.loop, "_backoff_ticker_waiters", None)
        if held:
            held.discard(self)


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
    """Call ``end(*args)``, which marks something as ended and wakes everything that waits for it.

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

    A waiter that finds no other there is ``lone``: most waiters are, and need no container. Others
    stand in the line of their domain. A line is made with the first waiter that needs it, and
    removed with the last.

    Attributes:
        closed: Whether it has happened.
        lone: The waiter that came first, until it leaves; the first of its domain.
        lines: The other waiters, by domain, in the order in which they came; None: not needed yet.
    """

    __slots__ = ("closed", "lines", "lone")

    def __init__(self) -> None:
        self.closed: bool = False
        self.lone: ref[Waiter] | None = None
        self.lines: dict[int, Line] | None = None

    @property
    def waiters(self) -> dict[Waiter, None]:
        """A copy: those registered now."""
        refs = [] if self.lone is None else [self.lone]
        for line in list((self.lines or {}).values()):
            refs += list(line)
        return {waiter: None for each in refs if (waiter := each()) is not None}

    def add(self, waiter: Waiter) -> None:
        """Register ``waiter``, which must check again afterwards. May be repeated."""
        # ATOMIC: no call between the look and the store: only one waiter is the lone one.
        self.lone = waiter.ref if self.lone is None and not self.lines else self.lone
        if self.lone is not waiter.ref:
            self._line_up(waiter)

    def _line_up(self, waiter: Waiter) -> None:
        domain = waiter.wake_domain
        lines: dict[int, Line] = {}  # made before the look: Python 3.11 may collect garbage here
        # ATOMIC: as in add().
        self.lines = lines if self.lines is None else self.lines
        while True:
            try:
                # ATOMIC: no call between the look-up of the line, which may go, and the store.
                self.lines[domain][waiter.ref] = None
            except KeyError:
                self.lines.setdefault(domain, OrderedDict())
            else:
                return

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and, once the set is closed, wake the next. May be repeated."""
        self._forget(waiter)
        if self.closed and waiter.chains_wakeups:
            self._wake_first_of(THREADS)

    def _forget(self, waiter: Waiter) -> None:
        # ATOMIC: as in add().
        self.lone = None if self.lone is waiter.ref else self.lone
        if self.lines:
            domain = waiter.wake_domain
            line = self.lines.get(domain)
            if line is not None:
                try:
                    line.pop(waiter.ref, None)
                except TypeError:
                    pass  # a collected waiter that stood in no line, so its reference has no hash
                self._remove_if_empty(domain, line)

    def _remove_if_empty(self, domain: int, line: Line) -> bool:
        lines: Any = self.lines
        try:
            # ATOMIC: no call between the looks and the removal, so no waiter comes in between.
            return not line and lines[domain] is line and lines.pop(domain) is line
        except KeyError:
            return False  # it was removed meanwhile

    def close(self) -> None:
        """Wake all waiters; calling it again completes a call that was cut short.

        Waiters that register later find out by their check. Coroutines are woken by one call into
        each loop. Of the threads that chain wake-ups only the first is woken; each wakes the next
        as it leaves.
        """
        self.closed = True
        for domain in self._domains():
            if domain != THREADS:
                self._wake_all_of(domain)
        self._wake_first_of(THREADS)

    def _domains(self) -> list[int]:
        """Return the domains that have waiters; that of the lone one comes first."""
        lone = self._lone()
        if lone is None:
            return list(self.lines or ())
        return list(dict.fromkeys((lone.wake_domain, *(self.lines or ()))))

    def _waiters_of(self, domain: int) -> list[Waiter]:
        """Return the waiters of a domain in this process, in order."""
        generation = _process.generation
        lone = self._lone()
        waiters = [] if lone is None or lone.wake_domain != domain else [lone]
        for each in list((self.lines or {}).get(domain, ())):
            waiter = each()
            if waiter is not None and waiter.generation == generation:
                waiters.append(waiter)
        return waiters

    def _wake_all_of(self, domain: int) -> None:
        """Wake the waiters of a domain, and forget them."""
        waiters = self._waiters_of(domain)
        if domain == ALONE:
            for waiter in waiters:
                waiter.wake()
        elif waiters:
            _fire_in(waiters[0].loop, waiters)  # type: ignore[arg-type]  # it is that of all
        if self.lines:
            self.lines.pop(domain, None)
        if waiters:
            self._forget(waiters[0])  # it may be the lone one

    def _wake_first_of(self, domain: int) -> None:
        while (first := self._first_of(domain)) is not None and not first.wake():
            self._forget(first)  # the next one must not wait for it

    def _first_of(self, domain: int) -> Waiter | None:
        """Return the waiter of a domain that has waited longest; forget those that are stale."""
        lone = self._lone()
        if lone is not None and lone.wake_domain == domain:
            return lone
        return self._first_in_line(domain)

    def _lone(self) -> Waiter | None:
        """Return the lone waiter; forget it if it is stale."""
        lone = self.lone
        if lone is None:
            return None
        waiter = lone()
        if waiter is None or waiter.is_stale:
            # ATOMIC: as in add().
            self.lone = None if self.lone is lone else self.lone
            return None
        return waiter

    def _first_in_line(self, domain: int) -> Waiter | None:
        line = (self.lines or {}).get(domain)
        while line:
            try:
                first = next(iter(line))
            except (KeyError, RuntimeError, StopIteration):
                continue  # the line changed between iter() and next()
            waiter = first()
            if waiter is not None and not waiter.is_stale:
                return waiter
            line.pop(first, None)
            self._remove_if_empty(domain, line)
        return None


class WaitLine(WaitSet):
    """Waiters for values that come one by one at times known beforehand, such as ticks.

    In each wake domain the first waiter leads: it alone watches the time, the others only wait for
    a wake-up. A waiter that leaves wakes the first of its domain, which may lead now. A loop that
    is blocked, stopped or closed therefore delays only its own waiters.
    """

    __slots__ = ()

    def leads(self, waiter: Waiter) -> bool:
        """Whether ``waiter`` is the first of its wake domain."""
        if self.lone is waiter.ref:
            return True
        domain = waiter.wake_domain
        return domain == ALONE or self._first_of(domain) in (waiter, None)

    def leave(self, waiter: Waiter) -> None:
        """Unregister ``waiter`` and wake the one that leads its domain now. May be repeated."""
        # ATOMIC: as in add().
        self.lone: ref[Waiter] | None = None if self.lone is waiter.ref else self.lone
        if self.lone is not None or self.lines:
            self._forget(waiter)
            domain = waiter.wake_domain
            if domain != ALONE:
                self._wake_first_of(domain)

    def wake_firsts(self) -> None:
        """Wake the first waiter of each domain."""
        if not self.lines:
            lone = self._lone()
            if lone is not None:
                lone.wake()
            return
        for domain in self._domains():
            if domain == ALONE:
                for waiter in self._waiters_of(ALONE):
                    waiter.wake()
            else:
                self._wake_first_of(domain)


class WaitQueue(WaitSet):
    """Waiters for values that each go to one waiter, such as the items of a channel.

    A wake-up takes the longest waiting waiter of each domain out of the queue, so a value never
    waits for a loop that does not run while others wait, and the next value wakes the next
    waiters. A waiter that was woken and waits on registers again before it checks; one that leaves
    without a value wakes the next.
    """

    __slots__ = ()

    lone: ref[Waiter] | None

    def wake_next(self) -> None:
        """Wake the waiter of each domain that has waited longest, where one can be reached."""
        # ATOMIC: no call between this store, after which only this thread can wake the waiter, and
        # the `try` that wakes it whatever interrupts it. On one line, so that the tests that switch
        # threads at each line switch nowhere in between.
        lone, self.lone = self.lone, None
        woken = None
        try:
            if lone is not None:
                woken = _wake(lone)
            if self.lines:
                for domain in list(self.lines):
                    if woken is None or domain == ALONE or woken.wake_domain != domain:
                        self._wake_next_of(domain)
        except BaseException:
            if lone is not None:
                _wake(lone)
            raise

    def _wake_next_of(self, domain: int) -> None:
        line = (self.lines or {}).get(domain)
        while line:
            try:
                first = next(iter(line))
                # ATOMIC: as in wake_next().
                del line[first]
            except (KeyError, RuntimeError, StopIteration):
                continue  # another wake-up came in between
            try:
                woken = _wake(first)
            except BaseException:
                _wake(first)
                raise
            if woken is not None and domain != ALONE:
                break
        if line is not None:
            self._remove_if_empty(domain, line)


def _wake(waiter: ref[Waiter]) -> Waiter | None:
    """Wake a waiter and return it; None if it cannot be reached any more."""
    alive = waiter()
    if alive is None or alive.generation != _process.generation or not alive.wake():
        return None
    return alive
