"""All contracts between this package and the code around it, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from datetime import timedelta

    from ._channel import Channel
    from ._schedule import Tick
    from ._stop import Stop

__all__ = [
    "BackOff",
    "Clock",
    "FeedbackBackOff",
    "Parker",
    "SendSink",
    "Sink",
    "TickerTimer",
    "Timer",
    "TimerHandle",
]


@runtime_checkable
class BackOff(Protocol):
    """A policy: says how long to wait before the next attempt, or to give up.

    Whoever runs a policy runs a copy of its own (``copy.copy``, then ``reset()``), together with
    the policies it holds, so one object may be shared by any number of threads and loops. A class
    that wants to be shared on purpose returns itself from ``__copy__``.
    """

    def next_backoff(self) -> float | Stop:
        """Return the seconds to wait (finite, >= 0), or ``STOP``.

        Called by one reader of a ticker at a time and expected to return at once.
        """
        ...

    def reset(self) -> None:
        """Begin anew."""
        ...


@runtime_checkable
class FeedbackBackOff(BackOff, Protocol):
    """A policy that hears how each attempt went, and goes by it.

    A ticker that runs one passes on what its own ``success()`` and ``failure()`` are told; an ask
    for the next tick without a word counts as a failure. Either may take a timestamp, too.

    ``isinstance(policy, FeedbackBackOff)`` tells one from another policy. What ``with_max_retries``
    and the like return is one exactly if the policy inside is, and type checkers see that. A class
    whose ``__getattr__`` makes these methods up is taken for one by tickers and wrappers, but not
    by ``isinstance()`` from Python 3.12 on, nor by a type checker: define them.
    """

    def failure(self) -> float | Stop:
        """Tell that an attempt failed; return the seconds until the next, or ``STOP``."""
        ...

    def success(self) -> float | Stop:
        """Tell that an attempt succeeded; return the seconds until the next, or ``STOP``."""
        ...


class TimerHandle(Protocol):
    """A callback that a clock will call."""

    @property
    def when(self) -> float:
        """When it is due, in the clock's monotonic seconds."""
        ...

    def cancel(self) -> bool:
        """Prevent the call; True if this is what prevented it. Never blocks."""
        ...


class TickerTimer(Protocol):
    """What a ticker wants of a timer, less than a ``Timer`` is.

    One of your own, for a test, is a ``Channel(1)`` on which ``start()`` or the test sends a time.
    """

    @property
    def c(self) -> Channel[float]:
        """Receives the time it fires: wall clock, in Unix seconds."""
        ...

    def start(self, delay: float) -> object:
        """Fire in ``delay`` seconds; if it was started before, that is over."""
        ...

    def stop(self) -> object:
        """Do not fire. Never blocks."""
        ...


@runtime_checkable
class Timer(Protocol):
    """Fires once, some time after it was started, unless it is stopped before.

    Clocks make them: ``Clock.timer()``.
    """

    @property
    def c(self) -> Channel[float]:
        """Receives the time it fires: wall clock, in Unix seconds."""
        ...

    def start(self, delay: float | timedelta) -> None:
        """Fire in ``delay`` seconds >= 0, or a timedelta; an earlier start is over."""
        ...

    def stop(self) -> bool:
        """Do not fire; True if this is what prevented it. Never blocks."""
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

    def timer(self) -> Timer:
        """Return a new timer that goes by this clock."""
        ...


class Sink(Protocol):
    """What ticks can be sent to; at the end its ``shutdown()`` or ``close()`` is called, if any."""

    def put_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error that tells that there is no room."""
        ...


class SendSink(Protocol):
    """A ``Sink`` whose method has the name of a channel's."""

    def send_nowait(self, item: Tick, /) -> object:
        """Take the item at once, or raise an error that tells that there is no room."""
        ...
