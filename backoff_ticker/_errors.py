"""The errors of the package; imports nothing, so that every room may raise them.

.. code-block:: text

    BackoffTickerError (Exception)
    ├── WouldBlock
    ├── TickerClosed            .reason
    ├── ChannelClosed
    ├── Cancelled               .cause
    │   └── DeadlineExceeded    also a TimeoutError
    └── in retries/_errors: Permanent, RetryAfter, RejectedResult
"""

from __future__ import annotations

import enum


class BackoffTickerError(Exception):
    """The root of what this package raises of its own.

    Bad arguments are not among them: those are plain ``TypeError`` and ``ValueError``.
    """


class CloseReason(enum.StrEnum):
    """Why a ticker gives no more ticks."""

    STOPPED = "stopped"
    """``stop()`` was called, or a ``with`` block left."""
    EXHAUSTED = "exhausted"
    """The policy returned ``STOP``."""
    CANCELLED = "cancelled"
    """A token was cancelled, or its deadline passed."""
    FAILED = "failed"
    """The policy raised an error or returned what is no delay."""


class WouldBlock(BackoffTickerError):
    """A ``*_nowait`` method found nothing ready; the same call may succeed later."""


class TickerClosed(BackoffTickerError):
    """A tick was asked of a ticker that gives no more.

    Not raised by iteration, which simply ends, and not for the failure of a policy: the policy's
    own error comes first, once.

    Attributes:
        reason: Why the ticker closed, a ``CloseReason``.
    """

    def __init__(self, reason: CloseReason) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the ticker is closed: {self.reason}"


class ChannelClosed(BackoffTickerError):
    """Something was sent on a closed channel, or asked of one that is closed and empty.

    Not raised by iteration, which simply ends.
    """

    def __str__(self) -> str:
        return "the channel is closed"


class Cancelled(BackoffTickerError):
    """A cancellation token was cancelled.

    An ordinary ``Exception``, unlike ``asyncio.CancelledError``: it tells that *work* was called
    off, not that the task itself was.

    Attributes:
        cause: What was given to ``cancel()``: an exception, a text, or None.
    """

    def __init__(self, cause: BaseException | str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        if self.cause is None:
            return "cancelled"
        told = self.cause if isinstance(self.cause, str) else type(self.cause).__name__
        return f"cancelled: {told}"


class DeadlineExceeded(Cancelled, TimeoutError):
    """A deadline passed: the cause of a token whose deadline passed, and what it then raises."""

    def __str__(self) -> str:
        return "the deadline has passed"
