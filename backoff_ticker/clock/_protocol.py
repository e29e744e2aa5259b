"""What this package needs of a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable


class TimerHandle(Protocol):
    """A callback that a clock will call, as ``Clock.call_at`` returns it.

    Example:
        >>> from backoff_ticker import SystemClock
        >>> clock = SystemClock()
        >>> handle = clock.call_at(clock.monotonic() + 60, print)
        >>> handle.cancel()
        True
    """

    @property
    def when(self) -> float:
        """The time at which it is due, in the clock's monotonic seconds."""
        ...

    def cancel(self) -> bool:
        """Prevent the call; True if this is what prevented it. Never blocks."""
        ...


class Parker(Protocol):
    """Where one thread waits; it may be used for any number of waits, one after the other.

    Example:
        >>> from backoff_ticker import SystemClock
        >>> parker = SystemClock().parker()
        >>> parker.unpark()
        >>> parker.park(None)
        True
    """

    def park(self, deadline: float | None) -> bool:
        """Wait until ``unpark()`` or until ``deadline`` (monotonic seconds; None: no limit).

        An ``unpark()`` that came before is remembered and ends the wait at once.

        Returns:
            True if it was unparked, False if the deadline passed.
        """
        ...

    def unpark(self) -> None:
        """End the wait, or the next one. From any thread, signal handler or finalizer."""
        ...


@runtime_checkable
class Clock(Protocol):
    """A source of time and of waits; ``clock=`` takes any object with these four methods.

    Example:
        >>> from backoff_ticker import Clock, SystemClock
        >>> isinstance(SystemClock(), Clock)
        True
    """

    def monotonic(self) -> float:
        """Return the seconds since a fixed moment; never less than before."""
        ...

    def time(self) -> float:
        """Return the wall-clock time, in Unix seconds."""
        ...

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Call ``callback()`` once, as soon as ``monotonic()`` reaches ``when``.

        Without ``loop`` it runs in a thread of the clock and must not block; an error that it
        raises is reported and stops nothing. With ``loop`` it runs in that event loop, and
        ``call_at`` must be called there.
        """
        ...

    def parker(self, what: str = "") -> Parker:
        """Return a parker for the calling thread; ``what`` names the wait in reports."""
        ...
