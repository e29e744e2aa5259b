"""Waiters, and the sets in which they register with what they wait for.

Whatever can be waited for owns a wait set and wakes the waiters in it, without knowing whether a
thread or a coroutine waits. A wake-up carries no value: it means "check again".

A waiter has a ``Place`` in each set. The places of one *wake domain* stand in a line, so the first
of each domain is at hand. A domain is an event loop, all threads but the main one, a single wait of
the main thread, a source of a merge, or all forwardings that one clock serves. Lines change under
the claim of their set.
"""

from __future__ import annotations

from weakref import ref

from .. import _process
from .._unraisable import report
from ._claim import FREED, Claim, acquire, claim_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection
    from typing import Any, TypeVar, TypeVarTuple, Unpack

    T = TypeVar("T")
    Ts = TypeVarTuple("Ts")

NO_DEADLINE = float("inf")
"""The deadline of a wait that only a wake-up ends."""

THREADS = 0
"""The wake domain of all threads except the main thread."""


class Waiter:
    """One wait of a thread or a coroutine; any thread or loop may wake it any number of times.

    The code that waits keeps it alive; for a task its loop does: see ``hold()``. The sets hold it
    weakly, so that an event loop that is dropped is collected with its coroutines.

    Attributes:
        loop: The event loop in which ``fire()`` must run; None: ``wake()`` may be called anywhere.
        domain: Its wake domain: ``THREADS``, or the identity of its loop (a reference would keep
            that alive), its clock or itself.
        generation: The process generation of its thread or loop; others do not run here.
        sources: The sets in which it registers.
        place: Its place in the first of them, which leads to the others; None: not registered yet.
        limit: When it gives up, in monotonic seconds, or ``NO_DEADLINE``.
        stays: Whether it is registered also while nobody waits.
    """

    stays = False

    __slots__ = ("__weakref__", "domain", "generation", "limit", "loop", "place", "sources")

    def __init__(self, loop: AbstractEventLoop | None, sources: Collection[WaitSet] = ()) -> None:
        self.loop: AbstractEventLoop | None = loop
        self.domain: int = id(self) if loop is None else id(loop)
        self.generation: int = _process.generation
        self.sources: Collection[WaitSet] = sources
        self.place: Place | None = None
        self.limit: float = NO_DEADLINE

    @property
    def is_stale(self) -> bool:
        """Whether it cannot be woken any more: the process has forked, or the loop was closed."""
        loop = self.loop
        return self.generation != _process.generation or (loop is not None and loop.is_closed())

    def register(self) -> None:
        """Register with every source with which it is not registered; then it must check again."""
        place = self.place
        if place is None:
            for _ in self.sources:
                new = Place(self)
                new.line = None
                new.following = place
                place = new
            self.place = place
        for source in self.sources:
            if place.line is None:  # type: ignore[union-attr]  # there is one for each source
                source.add(place, self.domain)  # type: ignore[arg-type]
            place = place.following  # type: ignore[union-attr]

    def unregister(self) -> None:
        """Undo ``register()`` and ``hold()``, and wake who must be woken now. May be repeated."""
        self.release()
        place = self.place
        if place is not None:
            for source in self.sources:
                source.leave(place, self.domain)  # type: ignore[arg-type]
                place = place.following  # type: ignore[union-attr]

    def wake(self) -> bool:
        """Make it check again, from anywhere; False if it cannot be reached."""
        return self.call_in_loop(self.fire)

    def call_in_loop(self, callback: Callable[..., object], *args: object) -> bool:
        """Have its loop call ``callback(*args)``; False if it has no open loop, or rests."""
        loop = self.loop
        if loop is None:
            return False
        try:
            loop.call_soon_threadsafe(callback, *args)
        except Exception:
            if loop.is_closed():
                return False
            error = failure_of(loop.call_soon_threadsafe, callback, *args)
            if error is None:
                raise  # a signal handler's error
            report(error, "Exception in call_soon_threadsafe() of an event loop", loop)
            return False  # it must not leave others waiting
        return True

    def fire(self) -> None:
        """Check again; called in the waiter's own loop."""

    def hold(self) -> None:
        """Have its loop keep it alive, and with it the task: asyncio holds tasks weakly."""
        loop: Any = self.loop
        try:
            loop._backoff_ticker_waiters.add(self)
        except AttributeError:
            loop._backoff_ticker_waiters = {self}

    def release(self) -> None:
        """Undo ``hold()``."""
        held = getattr(self.loop, "_backoff_ticker_waiters", None)
        if held:
            held.discard(self)


def check_stack(frames: int = 20) -> None:
    """Raise a ``RecursionError`` if the stack is nearly full: now, while nothing has happened.

    To wake others takes some frames, and so does to undo a call that ran out of them.
    """
    if frames:
        check_stack(frames - 1)


def complete(end: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Call ``end(*args)``, which may be repeated: once more if a signal handler raises in it."""
    try:
        return end(*args)
    except BaseException:
        end(*args)
        raise


def carry_out(end: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Call ``end(*args)`` as ``complete()`` does; not at all if the stack has no room for it."""
    try:
        check_stack()
        return end(*args)
    except BaseException:
        check_stack()  # which raises again, or it was a signal handler that had no room
        end(*args)
        raise


def failure_of(call: Callable[[Unpack[Ts]], object], *args: *Ts) -> Exception | None:
    """Return the error of a call that fails twice; one that fails once was interrupted."""
    try:
        call(*args)
    except Exception:
        try:
            call(*args)
        except Exception as error:  # the caller decides about it
            return error
        raise  # what a signal handler has raised
    return None


class Place(ref["Waiter"]):
    """A weak reference to a waiter, and its place between two others in a line."""

    __slots__ = ("after", "before", "following", "line")

    line: Line | None
    before: Place | None
    after: Place | None
    following: Place | None


class Line:
    """Places of one wake domain, in the order in which they came."""

    __slots__ = ("domain", "first", "last")

    def __init__(self, domain: int) -> None:
        self.domain: int = domain
        self.first: Place | None = None
        self.last: Place | None = None


class WaitSet(Line):
    """Waiters for something that happens once, such as the cancel of a token.

    A set is itself the line of the domain that came first, since most sets have no other.

    Attributes:
        claim: For changes of the lines; what the set belongs to may change under it, too.
        closed: Whether it has happened.
        others: The lines of other domains, by domain, while they have waiters; None: none yet.
        resting: The waiter that rests here: see ``WaitLine``.
    """

    __slots__ = ("claim", "closed", "others", "resting")

    def __init__(self, claim: Claim | None = None) -> None:
        super().__init__(THREADS)
        self.claim: Claim = claim_of(self) if claim is None else claim
        self.closed: bool = False
        self.others: dict[int, Line] | None = None
        self.resting: Waiter | None = None

    def add(
        self, place: Place, domain: int, new: tuple[Line, dict[int, Line]] | None = None
    ) -> None:
        """Put ``place``, unless it is in a line, last in that of ``domain``, made of ``new``."""
        claim = self.claim
        acquire(claim)
        try:
            line: Line | None = None
            others = self.others
            if others and domain in others:
                line = others[domain]
            elif self.domain == domain or self.first is None:
                line = self
                line.domain = domain
            elif new is not None:
                line = new[0]
                if others is None:
                    self.others = others = new[1]
                others[domain] = line
            if line is not None and place.line is None:
                last = line.last
                place.line = line
                place.before = last
                place.after = None
                line.last = place
                if last is None:
                    line.first = place
                else:
                    last.after = place
        finally:
            claim += FREED
        if line is None:
            WaitSet.add(self, place, domain, (Line(domain), {}))  # a change makes no objects

    def remove(self, place: Place, resting: Waiter | None = None) -> bool:
        """Take ``place`` out of its line, and note who rests; False if it is in no line."""
        claim = self.claim
        acquire(claim)
        try:
            line = place.line
            if line is None:
                return False
            before, after = place.before, place.after
            if before is None:
                line.first = after
            else:
                before.after = after
            if after is None:
                line.last = before
            else:
                after.before = before
            place.line = place.before = place.after = None
            if resting is not None and self.resting is None:
                self.resting = resting
            if line.first is None and line is not self:
                del self.others[line.domain]  # type: ignore[union-attr]  # it is there
            return True
        finally:
            claim += FREED

    def leave(self, place: Place, domain: int) -> None:
        """Unregister a waiter and, once the set is closed, wake the next. May be repeated."""
        if place.line is not None:
            self.remove(place)
        if self.closed and domain == THREADS:
            self._wake_first_of(THREADS)

    def close(self) -> None:
        """Wake all waiters; calling it again completes a call that was cut short.

        Many coroutines of a loop are woken by one call into it. Of the threads only the first is
        woken, and each wakes the next as it leaves: many would only compete for processors.
        """
        claim = self.claim
        # Under the claim, so that a waiter that is not seen below comes later, and then sees this.
        acquire(claim)
        try:
            self.closed = True
        finally:
            claim += FREED
        for domain in self.domains():
            while domain != THREADS and (first := self.first_of(domain)) is not None:
                place, waiter = first
                # Twice: an interrupt that comes as the loop begins a call loses that call.
                call = complete, self._fire_all_of, domain
                if place.after and waiter.call_in_loop(*call) and waiter.call_in_loop(*call):
                    break
                waiter.wake()
                self.remove(place)
        self._wake_first_of(THREADS)

    def domains(self) -> list[int]:
        """Return the domains that have waiters, or had them just now."""
        others = self.others
        return [self.domain, *others] if others else [self.domain]

    def reachable(self) -> list[Waiter]:
        """Return the first waiter of each domain, where it can still be woken."""
        firsts = [self.first_of(domain) for domain in self.domains()]
        return [first[1] for first in firsts if first is not None and not first[1].is_stale]

    def _fire_all_of(self, domain: int) -> None:
        """Wake the waiters of a loop, and forget them; called in that loop."""
        while (first := self.first_of(domain)) is not None:
            first[1].fire()
            self.remove(first[0])

    def _wake_first_of(self, domain: int) -> None:
        """Wake the first waiter of a domain, if there is one; it stays in line."""
        while (first := self.first_of(domain)) is not None and not first[1].wake():
            self.remove(first[0])  # the next one must not wait for it
            first[1].wake()  # it may have rested, and wait by now: it goes back into line

    def first_of(self, domain: int) -> tuple[Place, Waiter] | None:
        """Return the waiter of a domain that has waited longest, and its place."""
        while True:
            line = self if self.domain == domain else (self.others or {}).get(domain)
            if line is None or (place := line.first) is None:
                return None
            waiter = place()
            if waiter is None or waiter.generation != _process.generation:
                self.remove(place)
            elif waiter.domain == domain:  # else this line has become another domain's just now
                return place, waiter


class WaitLine(WaitSet):
    """Waiters for values that come one by one at times known beforehand, such as ticks.

    In each wake domain the first waiter leads: it alone watches the time. So a loop that is
    blocked, stopped or closed delays only its own waiters.

    One waiter of a loop may *rest* here, out of line, until that loop has it wait again.
    """

    __slots__ = ()

    def leads(self, waiter: Waiter) -> bool:
        """Whether ``waiter`` is the first of its wake domain."""
        if (place := self.first) is not None and place() is waiter:
            return True
        first = self.first_of(waiter.domain)
        return first is None or first[1] is waiter

    def leave(self, place: Place, domain: int, resting: Waiter | None = None) -> None:
        """Unregister a waiter and wake the one that may lead its domain now. May be repeated."""
        if place.line is not None:
            self.remove(place, resting)
        if self.first is not None or self.others:
            self._wake_first_of(domain)

    def wake_firsts(self) -> None:
        for domain in self.domains():
            self._wake_first_of(domain)


class WaitQueue(WaitSet):
    """Waiters for values that each go to one waiter, such as the items of a channel.

    A wake-up takes one waiter of each domain out of the queue, so a value never waits for a loop
    that does not run while others wait. A waiter that was woken looks for a value before it
    registers again: it takes one only, and must not be found by a wake-up for another. One that
    leaves without a value wakes the next.
    """

    __slots__ = ()

    def wake_next(self) -> None:
        """Wake the waiter of each domain that has waited longest, where one can be reached.

        Once more without memory: the call that has sent a value must not raise for that.
        """
        try:
            self._wake_next()
        except MemoryError:
            self._wake_next()

    def _wake_next(self) -> None:
        for domain in self.domains():
            while (first := self.first_of(domain)) is not None:
                place, waiter = first
                try:
                    if self.remove(place) and waiter.wake():
                        break
                except BaseException:
                    waiter.wake()  # which no other wake-up finds, once it is out of the line
                    raise
