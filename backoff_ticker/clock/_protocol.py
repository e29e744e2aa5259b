"""What this package needs of a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable


class TimerHandle(Protocol):
    """What ``Clock.call_at()`` returns: a callback that the clock will call."""

    @property
    def when(self) -> float:
        """The time at which the callback is due, in the clock's monotonic seconds."""

    def cancel(self) -> bool:
        """Prevent the call; True if this prevented it. It never blocks."""


class Parker(Protocol):
    """Lets one thread wait until another wakes it, in any number of waits in turn."""

    def park(self, deadline: float | None) -> bool:
        """Wait until ``unpark()`` or until ``deadline`` (monotonic seconds; None means no limit).

        An ``unpark()`` that came before ends the wait at once.

        Returns:
            True if it was unparked, False if the deadline passed.
        """

    def unpark(self) -> None:
        """End the wait, or the next one. Any thread, signal handler or finalizer may call it."""


@runtime_checkable
class Clock(Protocol):
    """The protocol of ``clock=``: any object with these four methods is a clock.

    ``SystemClock`` is the real one, ``backoff_ticker.testing.VirtualClock`` the one for tests.

    Example:
        >>> from backoff_ticker import Clock, SystemClock
        >>> clock: Clock = SystemClock()
        >>> handle = clock.call_at(clock.monotonic() + 60, print)
        >>> handle.cancel()
        True
    """

    def monotonic(self) -> float:
        """Return the seconds since a fixed moment; the number never decreases."""

    def time(self) -> float:
        """Return the wall-clock time in Unix seconds."""

    def call_at(
        self, when: float, callback: Callable[[], object], *, loop: AbstractEventLoop | None = None
    ) -> TimerHandle:
        """Call ``callback()`` once, as soon as ``monotonic()`` reaches ``when``.

        With ``loop`` it runs in that event loop, and ``call_at`` must be called there too.
        Otherwise it runs in a thread of the clock, which makes one call at a time, and must not
        block; its errors go to ``sys.unraisablehook``.
        """

    def parker(self, what: str = "") -> Parker:
        """Return a parker for the calling thread; ``what`` names the wait in reports."""
