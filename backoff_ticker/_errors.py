"""The errors of the package. This module imports nothing of it, so every module may raise them.

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
    """Base class of the errors that this package defines.

    Bad arguments raise plain ``TypeError`` and ``ValueError`` instead.

    Example:
        >>> from backoff_ticker import BackoffTickerError, Cancelled
        >>> issubclass(Cancelled, BackoffTickerError)
        True
    """


class CloseReason(enum.StrEnum):
    """Why a ticker gives no more ticks.

    Example:
        >>> from backoff_ticker import StopBackOff, Ticker
        >>> ticker = Ticker(StopBackOff())
        >>> [tick.number for tick in ticker]
        [1]
        >>> ticker.close_reason
        <CloseReason.EXHAUSTED: 'exhausted'>
    """

    STOPPED = "stopped"
    """``stop()`` was called, or a ``with`` block was left."""
    EXHAUSTED = "exhausted"
    """The policy returned ``STOP``."""
    CANCELLED = "cancelled"
    """A token was cancelled, or its deadline passed."""
    FAILED = "failed"
    """The policy raised an error, or returned something other than a delay or ``STOP``."""


class WouldBlock(BackoffTickerError):
    """A ``*_nowait`` method found nothing ready; the same call may succeed later.

    Example:
        >>> from backoff_ticker import Channel, WouldBlock
        >>> try:
        ...     Channel(1).receive_nowait()
        ... except WouldBlock:
        ...     print("empty")
        empty
    """


class TickerClosed(BackoffTickerError):
    """A tick was requested from a ticker that gives no more.

    Iteration ends instead of raising this. If the policy failed, its own error is raised first,
    once.

    Attributes:
        reason: Why the ticker closed, a ``CloseReason``.

    Example:
        >>> from backoff_ticker import Ticker, TickerClosed, ZeroBackOff
        >>> ticker = Ticker(ZeroBackOff())
        >>> ticker.stop()
        >>> try:
        ...     ticker.receive()
        ... except TickerClosed as error:
        ...     print(error)
        the ticker is closed: stopped
    """

    def __init__(self, reason: CloseReason) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the ticker is closed: {self.reason}"


class ChannelClosed(BackoffTickerError):
    """An item was sent on a closed channel, or requested from one that is closed and empty.

    Iteration ends instead of raising this.

    Example:
        >>> from backoff_ticker import Channel, ChannelClosed
        >>> channel = Channel(1)
        >>> channel.close()
        >>> try:
        ...     channel.receive()
        ... except ChannelClosed as error:
        ...     print(error)
        the channel is closed
    """

    def __str__(self) -> str:
        return "the channel is closed"


class Cancelled(BackoffTickerError):
    """A cancellation token was cancelled.

    This is an ordinary ``Exception``, unlike ``asyncio.CancelledError``: the *work* was cancelled,
    not the task that does it.

    Attributes:
        cause: What was given to ``cancel()``: an exception, a text, or None.

    Example:
        >>> from backoff_ticker import CancellationToken, Cancelled
        >>> token = CancellationToken()
        >>> token.cancel("shutting down")
        True
        >>> try:
        ...     token.raise_if_cancelled()
        ... except Cancelled as error:
        ...     print(error)
        cancelled: shutting down
    """

    def __init__(self, cause: BaseException | str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        if self.cause is None:
            return "cancelled"
        # Only the type of an exception: its text may be secret.
        cause = self.cause if isinstance(self.cause, str) else type(self.cause).__name__
        return f"cancelled: {cause}"


class DeadlineExceeded(Cancelled, TimeoutError):
    """The deadline of a token passed; it is both the token's cause and the error raised.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> token = CancellationToken().child(timeout=0)
        >>> try:
        ...     token.raise_if_cancelled()
        ... except TimeoutError as error:
        ...     print(error)
        the deadline has passed
    """

    def __str__(self) -> str:
        return "the deadline has passed"
