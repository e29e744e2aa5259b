"""The errors of a virtual clock."""

from __future__ import annotations

from .._errors import BackoffTickerError


class VirtualTimeError(BackoffTickerError):
    """The base class of all errors of a virtual clock.

    Example:
        >>> from backoff_ticker.testing import ClockLeakError, VirtualTimeError
        >>> issubclass(ClockLeakError, VirtualTimeError)
        True
    """


class SettleTimeout(VirtualTimeError, TimeoutError):
    """A participant neither waited on the clock nor ended, for too long in real time.

    The message names the participants that run, and the lines at which they are.

    Example:
        >>> from backoff_ticker.testing import SettleTimeout, VirtualClock
        >>> with VirtualClock() as clock:
        ...     try:
        ...         clock.block_until(timers=1, timeout=0)
        ...     except SettleTimeout as error:
        ...         print(error)
        block_until(timers=1): only 0 timers and 0 parked after 0 s real: nothing is due
    """


class VirtualDeadlockError(VirtualTimeError):
    """Under auto-advance, every participant waits and no timer is set, so nothing can happen.

    It also ends a run that has come to the time given as ``VirtualClock(until=...)``.
    Every wait raises it. A participant that catches it and waits again at the same time is ended.

    Example:
        >>> from backoff_ticker import Channel
        >>> from backoff_ticker.testing import VirtualClock, VirtualDeadlockError
        >>> with VirtualClock(auto=True):
        ...     try:
        ...         Channel(1).receive()
        ...     except VirtualDeadlockError:
        ...         print("nobody would send")
        nobody would send
    """


class UntrackedThreadError(VirtualTimeError):
    """A thread that is not a participant waited on the clock: it began outside of the block.

    Example:
        >>> import threading
        >>> from backoff_ticker.testing import UntrackedThreadError, VirtualClock
        >>> clock = VirtualClock()
        >>> def work():
        ...     try:
        ...         clock.sleep(1)
        ...     except UntrackedThreadError as error:
        ...         refused.append(error)
        >>> refused = []
        >>> thread = threading.Thread(target=work)  # outside of `with clock:`
        >>> thread.start()
        >>> thread.join()
        >>> len(refused)
        1
    """


class UntrackedLoopError(VirtualTimeError):
    """An event loop that the clock does not drive waited on it: it began outside of the block.

    Example:
        >>> import asyncio
        >>> from backoff_ticker.testing import UntrackedLoopError, VirtualClock
        >>> async def main():
        ...     try:
        ...         with VirtualClock():
        ...             pass
        ...     except UntrackedLoopError:
        ...         print("the loop already runs in real time")
        >>> asyncio.run(main())
        the loop already runs in real time
    """


class ClockUsageError(VirtualTimeError, ValueError):
    """A method of a clock was called in the wrong place or with wrong arguments.

    Example:
        >>> from backoff_ticker.testing import ClockUsageError, VirtualClock
        >>> with VirtualClock() as clock:
        ...     try:
        ...         clock.advance(-1)
        ...     except ClockUsageError as error:
        ...         print(error)
        cannot advance by -1: time does not go back
    """


class ClockLeakError(VirtualTimeError):
    """Some participants had not ended when the clock was closed.

    The message names them. Those that waited on the clock have been ended.

    Example:
        >>> from backoff_ticker.testing import ClockLeakError, VirtualClock
        >>> try:
        ...     with VirtualClock() as clock:
        ...         task = clock.spawn(clock.sleep, 60)
        ... except ClockLeakError as error:
        ...     print(str(error).partition(" in ")[0])
        1 participant still waited at close: sleep-1: sleep()
    """


class ParticipantAborted(BaseException):
    """Ends a participant whose clock is closed. Code under test should not catch it."""
