"""The cancellation token: one object that cancels threads and coroutines alike."""

from __future__ import annotations

from .._errors import DeadlineExceeded
from .._process import ProcessBound
from .._sentinels import EMPTY
from .._validation import as_number, as_seconds, safe_repr
from ..clock import later, one_clock, resolve_clock
from ..waiting import (
    NO_DEADLINE,
    Source,
    carry_out,
    checkpoint,
    park_coroutine,
    park_thread,
    trio_runs,
)
from ._scope import Scope
from ._tree import CallbackHandle, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Self

    from ..clock import Clock
    from ..waiting import Waiter, WaitSet


class CancellationToken(Node, Source, ProcessBound):
    """Tells any number of threads and event loops to stop what they do.

    Pass one token to everything that takes part in a piece of work. One ``cancel()``, or the end of
    a ``with token:`` block, wakes all tickers, retries, ``select`` and ``wait()``, and they end.
    Your own code checks ``cancelled`` or calls ``raise_if_cancelled()``.

    Thread safety: all methods in any thread; ``cancel()`` also in signal handlers and finalizers.

    Args:
        timeout: Cancel it after this time: seconds >= 0 or a timedelta. None means never.
        deadline: Cancel it when the clock's ``monotonic()`` reaches this number. If both are given,
            the earlier one counts.
        clock: Measures the deadlines of this token and its children. None means the current clock.

    Raises:
        TypeError, ValueError: ``timeout`` or ``deadline`` is not a finite number in its range.

    Attributes:
        cancelled: Whether it is cancelled, or its deadline has passed. Read-only.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> token = CancellationToken()
        >>> child = token.child(timeout=60)
        >>> token.cancel("shutting down")
        True
        >>> child.wait(), child.cause
        (True, 'shutting down')
    """

    __slots__ = ()

    _selected: tuple[Self, BaseException | str | None]  # for type checkers: what select() returns

    _ends_with_value = True
    _kind = "a CancellationToken"

    def __init__(
        self,
        *,
        timeout: float | timedelta | None = None,
        deadline: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = resolve_clock(clock)
        when = _earliest(clock, NO_DEADLINE, timeout, deadline)
        if when != NO_DEADLINE:
            kind = type(self)
            if kind is not CancellationToken:  # its class cannot be replaced
                raise TypeError(f"{kind.__name__} cannot have a timeout or deadline: use child()")
            self.__class__ = _DeadlineToken
        self._begin(clock, (), when)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "cancelled":
            raise AttributeError("cancelled is read-only: call cancel()")
        super().__setattr__(name, value)

    def cancel(self, cause: BaseException | str | None = None) -> bool:
        """Cancel this token and all its descendants; True for the one call that cancelled it.

        It never blocks. When any call returns, all descendants are cancelled. Callbacks run in the
        calling thread, except those that another call, or an outer one here, is running.

        Args:
            cause: The reason: an exception, a text or None. The first cause stays.

        Raises:
            TypeError: ``cause`` is something else.
            BaseException: A callback raised a ``KeyboardInterrupt`` or the like; all others ran.
        """
        if cause is not None and not isinstance(cause, (BaseException, str)):
            raise TypeError(f"cause must be an exception, a str or None, not {safe_repr(cause)}")
        return carry_out(self._cancel, (cause,))

    @property
    def cause(self) -> BaseException | str | None:
        """The cause given to ``cancel()``, or a ``DeadlineExceeded``; None if not cancelled."""
        return self._cause()[0] if self.cancelled else None

    @property
    def clock(self) -> Clock:
        """The clock that measures the deadlines of this token and its children."""
        return self._clock

    @property
    def deadline(self) -> float | None:
        """When the token cancels itself, in the clock's monotonic seconds; None if never."""
        return None if self._deadline == NO_DEADLINE else self._deadline

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, at least 0.0; None without a deadline."""
        left = self._deadline - self._clock.monotonic()
        return None if left == NO_DEADLINE else max(0.0, left)

    def raise_if_cancelled(self) -> None:
        """Raise an error if the token is cancelled, else do nothing.

        Raises:
            DeadlineExceeded: A deadline passed. It is a ``Cancelled``, too.
            Cancelled: The token was cancelled. If the cause is an exception, it is chained.
        """
        if self.cancelled:
            raise self._error()

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Block this thread until the token is cancelled; False if ``timeout`` ran out before.

        If interrupted: nothing stays behind.

        Args:
            timeout: Seconds >= 0 or a timedelta; None means no limit.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: An event loop runs here, and there is no timeout or deadline: use
                ``wait_async()``. Else it blocks that loop, and a ``RuntimeWarning`` says so.
        """
        limit = _earliest(self._clock, NO_DEADLINE, timeout, None)
        what, instead = "CancellationToken.wait()", "await token.wait_async()"
        while not self.cancelled and self._clock.monotonic() < limit:
            park_thread(self._clock, what, instead, self._wait_sets(), self._recheck, limit)
        return self.cancelled

    async def wait_async(self, timeout: float | timedelta | None = None) -> bool:
        """Wait as ``wait()`` does, in a coroutine.

        If cancelled: ``asyncio.CancelledError`` is raised, and nothing stays behind.
        """
        limit = _earliest(self._clock, NO_DEADLINE, timeout, None)
        if trio_runs():
            await checkpoint()
        while not self.cancelled and self._clock.monotonic() < limit:
            await park_coroutine(self._clock, self._wait_sets(), self._recheck, limit)
        return self.cancelled

    @property
    def _timing_clock(self) -> Clock | None:
        return None if self._deadline == NO_DEADLINE else self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        return (self._wait_set(),)

    def _take_nowait(self, *, fresh: bool) -> object:
        return self.cause if self.cancelled else EMPTY

    def _recheck(self, waiter: Waiter) -> float | None:
        return None if self.cancelled else min(waiter.limit, self._deadline)

    def child(
        self, timeout: float | timedelta | None = None, deadline: float | None = None
    ) -> CancellationToken:
        """Return a new token that is cancelled with this one (at once, if it already is), or alone.

        Its deadline is the earliest of ``timeout``, ``deadline`` (as for a new token) and this
        token's deadline. Keep a reference to the child: its parent does not.
        """
        when = _earliest(self._clock, self._deadline, timeout, deadline)
        return derive_token(self._clock, (self,), when)

    def on_cancel(self, callback: Callable[[], object]) -> CallbackHandle:
        """Call ``callback()`` once when the token is cancelled; now, if it already is.

        The callback runs in the thread that cancels (for a deadline, in the scheduler thread), in a
        copy of the ``contextvars`` context of this call. It must not block. Its errors go to
        ``sys.unraisablehook``. Until it runs, or ``remove()`` of the returned handle prevents it,
        everything that can cancel the token keeps the token alive.

        Raises:
            TypeError: ``callback`` is not callable.
            RuntimeError: The token has a deadline, and the scheduler thread cannot be started.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {safe_repr(callback)}")
        handle = CallbackHandle(self, callback)
        try:
            handle._register()
        except BaseException:
            handle.remove()
            raise
        return handle

    def scope(self) -> Scope[Self]:
        """Return an ``async with`` block whose body the token cancels through asyncio or trio.

        The block then raises ``Cancelled`` or ``DeadlineExceeded``; if others cancelled the task,
        too, ``asyncio.CancelledError``; nothing if the body ends normally nevertheless. No cancel
        stays pending. Where the token is cancelled already, the body runs to its first ``await``.

        Raises:
            RuntimeError: On entering the block: not in a task, or for the second time.
        """
        return Scope(self)

    def disarm(self) -> None:
        """Do not cancel the token at the end of its ``with`` block."""
        self._state.armed = False

    def __enter__(self) -> Self:
        self._state.armed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._state.armed:
            self.cancel()

    def __repr__(self) -> str:
        try:
            left = None if self.cancelled else self.remaining()
        except Exception:  # of the clock that measures the deadline
            left = None
        state = "open" if left is None else f"open, {round(left, 3)} s left"
        for cause in self._state.cause or ():
            # Only the type of an exception: its text may be secret.
            shown = safe_repr(cause) if isinstance(cause, str) else type(cause).__name__
            state = "cancelled" if cause is None else f"cancelled: {shown}"
        return f"<CancellationToken {state}>"


class _DeadlineToken(CancellationToken):
    """A token with a deadline. It has no slots of its own, so that a token can become one."""

    __slots__ = ()

    @property
    def cancelled(self) -> bool:
        if not self._marked and self._clock.monotonic() >= self._deadline:
            self._mark((DeadlineExceeded(),))
        return self._marked


def _earliest(
    clock: Clock, when: float, timeout: float | timedelta | None, deadline: float | None
) -> float:
    if timeout is not None:
        when = min(when, later(clock.monotonic(), as_seconds("timeout", timeout)))
    if deadline is not None:
        number = as_number("deadline", deadline, "a finite number of monotonic seconds")
        when = min(when, round(number, 9))  # as later() does
    return when


def derive_token(
    clock: Clock, parents: tuple[CancellationToken, ...], deadline: float | None
) -> CancellationToken:
    """Return a token that any of ``parents`` cancels; none of them has an earlier deadline."""
    when = NO_DEADLINE if deadline is None else deadline
    cls = CancellationToken if when == NO_DEADLINE else _DeadlineToken
    token = cls.__new__(cls)
    token._begin(clock, parents, when)
    return token


def any_of(*tokens: CancellationToken) -> CancellationToken:
    """Return a token that is cancelled as soon as one of ``tokens`` is, with its cause.

    Cancelling it cancels none of ``tokens``. It keeps them alive; they do not keep it alive.

    Raises:
        TypeError: No token is given, or an argument is not a token.
        ValueError: Two of them have deadlines on different clocks.

    Example:
        >>> from backoff_ticker import CancellationToken, any_of
        >>> shutdown, hangup = CancellationToken(), CancellationToken()
        >>> either = any_of(shutdown, hangup)
        >>> hangup.cancel("hung up")
        True
        >>> either.cause
        'hung up'
    """
    if not tokens:
        raise TypeError("any_of() needs at least one token")
    for token in tokens:
        require_token("any_of()'s argument", token)
    clocks = [token._clock for token in tokens if token._deadline != NO_DEADLINE]
    clock = one_clock("any_of()", clocks, tokens[0]._clock)
    return derive_token(clock, tokens, min(token._deadline for token in tokens))


def require_token(name: str, value: object) -> CancellationToken:
    if not isinstance(value, CancellationToken):
        raise TypeError(f"{name} must be a CancellationToken, not {safe_repr(value)}")
    return value
