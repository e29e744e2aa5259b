"""What this package asks of a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable


class TimerHandle(Protocol):
    """A callback that a clock will call."""

    @property
    def when(self) -> float:
        """When it is due, in the clock's monotonic seconds."""
        ...

    def cancel(self) -> bool:
        """Prevent the call; True if this is what prevented it. Never blocks."""
        ...


class Parker(Protocol):
    """Where one thread waits, once or again and again."""

    def park(self, deadline: float | None) -> bool:
        """Wait until ``unpark()`` or until ``deadline`` (monotonic seconds; None: no limit).

        Returns True if it was unparked, False if the deadline passed. An ``unpark()`` that came
        before is remembered and ends the wait at once.
        """
        ...

    def unpark(self) -> None:
        """End the wait, or the next one. From any thread, signal handler or finalizer."""
        ...


@runtime_checkable
class Clock(Protocol):
    """The seam through which everything here reads time and waits."""

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment; never goes back."""
        ...

    def time(self) -> float:
        """Return the wall clock, in Unix seconds."""
        ...

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Have ``callback()`` called once ``monotonic()`` reaches ``when``.

        Without ``loop`` it runs in a thread of the clock's and must not block; what it raises is
        reported and stops nothing. With ``loop`` it runs in that event loop, and ``call_at``
        itself must be called there.
        """
        ...

    def parker(self, what: str = "") -> Parker:
        """Return a place to wait for the calling thread; ``what`` names the wait in reports."""
        ...
