"""The errors of the package.

Of the package it imports only the checks of numbers, so every module may raise them.

.. code-block:: text

    BackoffTickerError (Exception)
    ├── WouldBlock
    ├── TickerClosed            .reason
    ├── ChannelClosed
    ├── Cancelled               .cause
    │   └── DeadlineExceeded    also a TimeoutError
    ├── Permanent               .error
    ├── RetryAfter              .seconds, .error
    └── RejectedResult          .result
"""

from __future__ import annotations

import enum

from ._validation import as_seconds, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta


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


class Permanent(BackoffTickerError):
    """Raised by an operation to say that no further attempt can help.

    The retry ends and raises ``error`` itself. A ``Permanent`` is also found along ``__cause__``:
    ``raise MyError from Permanent(error)``. Outside a retry it passes like any other exception.

    Source: ``Permanent`` of cenkalti/backoff v4.

    Example:
        >>> from backoff_ticker import Permanent, retry_call
        >>> def load():
        ...     raise Permanent(LookupError("no such user"))
        >>> try:
        ...     retry_call(load)
        ... except LookupError as error:
        ...     print(error)
        no such user

    Args:
        error: The exception that the retry raises.

    Raises:
        TypeError: ``error`` is not an exception.
    """

    def __init__(self, error: BaseException) -> None:
        if not isinstance(error, BaseException):
            raise TypeError(f"error must be an exception, not {safe_repr(error)}")
        super().__init__(error)
        self.error: BaseException = error

    def __str__(self) -> str:
        return _described(self.error)


class RetryAfter(BackoffTickerError):
    """Raised by an operation to be tried again in ``seconds``, whatever ``on`` would say.

    The wait replaces the delay of the policy, which is still polled, so that its limits and those
    of the retry hold. No wait is longer than ``max_retry_after``.

    Example:
        >>> from backoff_ticker import RetryAfter, retry_call
        >>> answers = iter([RetryAfter(0.001), "ready"])
        >>> def load():
        ...     answer = next(answers)
        ...     if isinstance(answer, RetryAfter):
        ...         raise answer
        ...     return answer
        >>> retry_call(load)
        'ready'

    Args:
        seconds: The next wait: seconds >= 0 or a timedelta.
        error: The failure itself: hooks receive it, and it is raised if no attempt follows. None:
            the ``RetryAfter`` stands for itself.

    Raises:
        TypeError, ValueError: ``seconds`` is not a finite duration of at least 0.
        TypeError: ``error`` is neither None nor an ``Exception``.
    """

    def __init__(self, seconds: float | timedelta, error: Exception | None = None) -> None:
        self.seconds: float = as_seconds("seconds", seconds)
        fits = isinstance(error, Exception) and not isinstance(error, (Permanent, RetryAfter))
        if error is not None and not fits:
            raise TypeError(
                "error must be None or an Exception that is neither Permanent nor RetryAfter, "
                f"not {safe_repr(error)}"
            )
        super().__init__(seconds, error)
        self.error: Exception | None = error

    def __str__(self) -> str:
        text = f"retry after {self.seconds} s"
        return text if self.error is None else f"{text}: {_described(self.error)}"


class RejectedResult(BackoffTickerError):
    """The last attempt of a retry returned a value that ``until`` or ``retry_if`` rejected.

    Example:
        >>> from backoff_ticker import RejectedResult, retry_call
        >>> try:
        ...     retry_call(lambda: "pending", until=lambda state: state == "done", max_attempts=1)
        ... except RejectedResult as error:
        ...     print(error.result)
        pending

    Attributes:
        result: The value.
    """

    def __init__(self, result: object) -> None:
        super().__init__(result)
        self.result: object = result

    def __str__(self) -> str:
        return f"a result of type {type(self.result).__name__} was not accepted"


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
