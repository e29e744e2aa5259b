"""The errors of the package.

.. code-block:: text

    BackoffTickerError (Exception)
    ├── WouldBlock
    ├── TickerClosed            .reason
    ├── ChannelClosed
    ├── ScheduleClosed
    ├── Cancelled               .cause
    │   └── DeadlineExceeded    also a TimeoutError
    ├── Permanent               .error
    ├── RetryAfter              .seconds, .error
    ├── RejectedResult          .result
    └── CircuitOpen             .seconds, .breaker, .state
"""

from __future__ import annotations

import enum

from ._shown import shown_error
from ._validation import as_seconds, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any


class BackoffTickerError(Exception):
    """The base class of all errors of this package.

    Invalid arguments and misuse raise Python's own ``TypeError``, ``ValueError`` and
    ``RuntimeError`` instead, and a ``timeout`` that runs out the built-in ``TimeoutError``.

    Example:
        >>> from backoff_ticker import BackoffTickerError, Cancelled
        >>> issubclass(Cancelled, BackoffTickerError)
        True
    """

    __repr__ = shown_error


class CloseReason(enum.StrEnum):
    """Why a ticker has ended: the ``close_reason`` of a ticker.

    Example:
        >>> from backoff_ticker import StopBackOff, Ticker
        >>> ticker = Ticker(StopBackOff())
        >>> [tick.number for tick in ticker]
        [1]
        >>> ticker.close_reason
        <CloseReason.EXHAUSTED: 'exhausted'>
    """

    STOPPED = "stopped"
    """``stop()`` was called, or the ``with`` block of the ticker ended."""
    EXHAUSTED = "exhausted"
    """The policy returned ``STOP``."""
    CANCELLED = "cancelled"
    """A token was cancelled, or its deadline passed."""
    FAILED = "failed"
    """The policy raised an error, or returned something other than a delay or ``STOP``."""


class CircuitState(enum.StrEnum):
    """The state of a circuit breaker.

    Example:
        >>> from backoff_ticker import CircuitBreaker
        >>> CircuitBreaker().state
        <CircuitState.CLOSED: 'closed'>
    """

    CLOSED = "closed"
    """All calls are let through."""
    OPEN = "open"
    """No call is let through."""
    HALF_OPEN = "half-open"
    """A few calls are let through, as probes."""


class WouldBlock(BackoffTickerError):
    """A ``*_nowait`` method would have to wait; the same call may succeed later.

    Example:
        >>> from backoff_ticker import Channel
        >>> Channel(1).receive_nowait()
        Traceback (most recent call last):
        backoff_ticker.WouldBlock: the channel is empty
    """


class TickerClosed(BackoffTickerError):
    """``receive()`` was called on a ticker that has ended.

    Iteration ends without this error. If the policy failed, its own error is raised once before.

    Attributes:
        reason: Why the ticker ended, a ``CloseReason``.

    Example:
        >>> from backoff_ticker import Ticker, ZeroBackOff
        >>> ticker = Ticker(ZeroBackOff())
        >>> ticker.stop()
        >>> ticker.receive()
        Traceback (most recent call last):
        backoff_ticker.TickerClosed: the ticker is closed: stopped
    """

    def __init__(self, reason: CloseReason) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the ticker is closed: {self.reason}"


class ChannelClosed(BackoffTickerError):
    """A channel is closed: it accepts no item, or has none left to receive.

    Iteration ends without this error.

    Example:
        >>> from backoff_ticker import Channel
        >>> channel = Channel(1)
        >>> channel.close()
        >>> channel.receive()
        Traceback (most recent call last):
        backoff_ticker.ChannelClosed: the channel is closed
    """

    def __str__(self) -> str:
        return "the channel is closed"


class ScheduleClosed(BackoffTickerError):
    """A schedule was closed, or its token is cancelled: no key is added, and no job is given out.

    Iteration ends without this error.

    Example:
        >>> from backoff_ticker import Schedule
        >>> schedule = Schedule()
        >>> schedule.close()
        >>> schedule.add("key")
        Traceback (most recent call last):
        backoff_ticker.ScheduleClosed: the schedule is closed
    """

    def __str__(self) -> str:
        return "the schedule is closed"


class Cancelled(BackoffTickerError):
    """A cancellation token was cancelled.

    Unlike ``asyncio.CancelledError`` it is an ordinary ``Exception``: the *work* was cancelled, not
    the task that does it.

    Attributes:
        cause: What was given to ``cancel()``: an exception, a text or None.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> token = CancellationToken()
        >>> token.cancel("shutting down")
        True
        >>> token.raise_if_cancelled()
        Traceback (most recent call last):
        backoff_ticker.Cancelled: cancelled: shutting down
    """

    def __init__(self, cause: BaseException | str | None = None) -> None:
        super().__init__(*() if cause is None else (cause,))
        self.cause = cause

    def __str__(self) -> str:
        if self.cause is None:
            return "cancelled"
        # Only the type of an exception: its text may be secret.
        cause = self.cause if isinstance(self.cause, str) else type(self.cause).__name__
        return f"cancelled: {cause}"


class DeadlineExceeded(Cancelled, TimeoutError):
    """The deadline of a token passed, or the ``timeout`` of a retry was or would be reached.

    It is a ``Cancelled`` and also a built-in ``TimeoutError``. For a token with a deadline it is
    the cause, too.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> CancellationToken().child(timeout=0).raise_if_cancelled()
        Traceback (most recent call last):
        backoff_ticker.DeadlineExceeded: the deadline has passed
    """

    def __str__(self) -> str:
        return self.cause if isinstance(self.cause, str) else "the deadline has passed"


class Permanent(BackoffTickerError):
    """Raise it in an operation to say that retrying cannot help.

    The retry ends and raises ``error`` itself. It is found along ``__cause__``, too: after ``raise
    OSError from Permanent(ValueError())`` the retry raises the ``ValueError``. An error that was
    only raised while a ``Permanent`` was handled (its ``__context__``) does not count. In a job of
    a ``Schedule`` it gives the key up; elsewhere it is an exception like any other.

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
        return f"{type(self.error).__name__}: {self.error}"


class RetryAfter(BackoffTickerError):
    """Raise it in an operation to be called again in ``seconds``, whatever ``on`` says.

    The wait replaces the delay of the policy. The policy is still asked, so that its limits and
    those of the retry hold. The wait is never longer than ``max_retry_after`` of the retry.

    Example:
        >>> from backoff_ticker import RetryAfter, attempts
        >>> for attempt in attempts():
        ...     with attempt:
        ...         if attempt.number == 1:
        ...             raise RetryAfter(0.001)
        ...         print("ready")
        ready

    Args:
        seconds: The next wait: seconds >= 0 or a timedelta.
        error: The failure itself, which hooks receive, and which is raised if no attempt follows.
            None means the ``RetryAfter``.

    Raises:
        TypeError, ValueError: ``seconds`` is not a finite duration >= 0.
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
        return text if self.error is None else f"{text}: {type(self.error).__name__}: {self.error}"


class RejectedResult(BackoffTickerError):
    """The last attempt of a retry returned a result that ``until`` rejected.

    Example:
        >>> from backoff_ticker import RejectedResult, retry_call
        >>> try:
        ...     retry_call(lambda: "pending", until="done".__eq__, max_attempts=1)
        ... except RejectedResult as error:
        ...     print(error.result)
        pending

    Attributes:
        result: The result of the last attempt.
    """

    def __init__(self, result: object) -> None:
        super().__init__(result)
        self.result: Any = result

    def __str__(self) -> str:
        return f"a result of type {type(self.result).__name__} was not accepted"


class CircuitOpen(BackoffTickerError):
    """A circuit breaker did not let a call through.

    Attributes:
        seconds: No call is let through for at least this many seconds. 0.0 while the policy is
            being asked; None if the circuit is open until a reset, or half-open.
        breaker: The ``CircuitBreaker``. None after unpickling, because the breaker stays in its
            process.
        state: ``CircuitState.OPEN``, or ``CircuitState.HALF_OPEN`` if all probes are running, or
            ``may_probe`` has refused another one.

    Example:
        >>> from backoff_ticker import CircuitBreaker
        >>> breaker = CircuitBreaker()
        >>> breaker.open()
        >>> with breaker.guard():
        ...     print("not reached")
        Traceback (most recent call last):
        backoff_ticker.CircuitOpen: the circuit is open
    """

    def __init__(
        self,
        seconds: float | None = None,
        breaker: Any = None,
        state: CircuitState = CircuitState.OPEN,
    ) -> None:
        super().__init__(seconds, breaker, state)
        self.seconds: float | None = seconds
        self.breaker: Any = breaker
        self.state: CircuitState = state

    def __str__(self) -> str:
        if self.state is CircuitState.HALF_OPEN:
            return "the circuit is half-open, and lets no further probe through"
        left = "" if self.seconds is None else f", {round(self.seconds, 3)} s left"
        return f"the circuit is open{left}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        rest = {**self.__dict__, "breaker": None}
        return type(self), (self.seconds, None, self.state), rest


for _class in [*globals().values()]:
    if isinstance(_class, type) and issubclass(_class, BackoffTickerError):
        _class.__module__ = "backoff_ticker"  # tracebacks and pickles name what users import
