"""The errors of a virtual clock."""

from __future__ import annotations

from .._errors import BackoffTickerError


class VirtualTimeError(BackoffTickerError):
    """The base class of all errors of a virtual clock."""


class SettleTimeout(VirtualTimeError, TimeoutError):
    """A participant neither waited on the clock nor ended, for too long in real time.

    The message names the participants that run, and the lines at which they are.
    """


class VirtualDeadlockError(VirtualTimeError):
    """Under auto-advance, every participant waits and no timer is set, so nothing can happen.

    It also ends a run that has come to the time given as ``VirtualClock(until=...)``.
    Every wait raises it. A participant that catches it and waits again at the same time is ended.
    """


class UntrackedThreadError(VirtualTimeError):
    """A thread that is not a participant waited on the clock: it began outside of the block."""


class UntrackedLoopError(VirtualTimeError):
    """An event loop that the clock does not drive waited on it: it began outside of the block."""


class ClockUsageError(VirtualTimeError, ValueError):
    """A method of a clock was called in the wrong place or with wrong arguments."""


class ClockLeakError(VirtualTimeError):
    """Some participants had not ended when the clock was closed.

    The message names them. Those that waited on the clock have been ended.
    """


class ParticipantAborted(BaseException):
    """Ends a participant whose clock is closed. Code under test should not catch it."""
