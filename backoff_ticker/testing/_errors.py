"""What a virtual clock complains of: a tree of errors for tests."""

from __future__ import annotations

from .._errors import BackoffTickerError


class VirtualTimeError(BackoffTickerError):
    """Anything that a virtual clock raises."""


class SettleTimeout(VirtualTimeError, TimeoutError):
    """A participant neither waits on the clock nor ends, for so long in real time.

    The message names those who run, and where they are.
    """


class VirtualDeadlockError(VirtualTimeError):
    """Time advances by itself, every participant waits, and nothing is due."""


class UntrackedThreadError(VirtualTimeError):
    """A thread that the clock does not know waits on it."""


class UntrackedLoopError(VirtualTimeError):
    """An event loop that the clock does not drive waits on it."""


class ClockUsageError(VirtualTimeError, ValueError):
    """A clock was asked for something that cannot be right where it was asked."""


class ClockLeakError(VirtualTimeError):
    """Participants were left as the clock was closed; those that waited on it have been ended."""


class Unwind(BaseException):
    """Ends a participant of a clock that is closed. Not for the code under test to catch."""
