"""Cancellation tokens: one object that cancels threads and coroutines alike."""

from __future__ import annotations

from .._errors import Cancelled, DeadlineExceeded
from .._process import ProcessBound
from .._sentinels import EMPTY
from .._validation import as_number, as_seconds, safe_repr
from ..clock import resolve_clock
from ..waiting import NO_DEADLINE, Source, park_coroutine, park_thread
from ._tree import CallbackHandle, TokenNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

    from ..clock import Clock
    from ..waiting import LoopWaiter, ThreadWaiter, WaitSet
    from ._scope import Scope


class CancellationToken(TokenNode, Source, ProcessBound):
    """Tells any number of threads and event loops that work is called off.

    Every method may be called from any thread and loop; ``cancel()`` also from signal handlers,
    finalizers and callbacks. Nothing polls: a cancel wakes each waiter at once.

    As a context manager it is cancelled on leaving the block, unless ``disarm()`` was called.

    Args:
        clock: Measures the deadlines of this token and its children; None: the current clock.

    Attributes:
        cancelled: Whether it is cancelled. A deadline that has passed counts. As cheap to read as
            a plain attribute, which it is on a token without a deadline; never assign to it.
    """

    __slots__ = ()

    _once = True
    _kind = "a CancellationToken"

    def __init__(self, clock: Clock | None = None) -> None:
        self._begin(resolve_clock(clock), (), None)

    def cancel(self, cause: BaseException | str | None = None) -> bool:
        """Cancel this token and all its descendants, and wake everyone who waits for them.

        Callbacks run in the calling thread before it returns; those that another call, or an outer
        one in this thread, is running already are left to it. Never blocks.

        Args:
            cause: Why: an exception or a text. The first cause stays.

        Returns:
            True for the one call that cancelled it. Also when it returns False, every descendant
            is cancelled.

        Raises:
            TypeError: ``cause`` is something else.
            BaseException: A ``KeyboardInterrupt`` or the like out of a callback, once all is done.
        """
        if cause is not None and not isinstance(cause, (BaseException, str)):
            raise TypeError(f"cause must be an exception, a str or None, not {safe_repr(cause)}")
        won = not self.cancelled and self._mark((cause,))
        self.finish()
        return won

    @property
    def cause(self) -> BaseException | str | None:
        """What it was cancelled with; None before, or if no cause was given.

        A ``DeadlineExceeded`` where a deadline passed.
        """
        return self._box()[0] if self.cancelled else None

    @property
    def clock(self) -> Clock:
        """What measures its deadline, and those of its children."""
        return self._clock

    @property
    def deadline(self) -> float | None:
        """When it cancels itself, in the clock's monotonic seconds; None: never.

        The earliest of its own and its parents' deadlines.
        """
        return self._deadline

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, never negative; None without a deadline."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - self._clock.monotonic())

    def error(self) -> Cancelled:
        """Return a fresh error that tells the cause, as ``raise_if_cancelled()`` raises it."""
        cause = self.cause
        if isinstance(cause, DeadlineExceeded):
            return DeadlineExceeded(cause)
        error = Cancelled(cause)
        if isinstance(cause, BaseException):
            error.__cause__ = cause
        return error

    def raise_if_cancelled(self) -> None:
        """Raise if it is cancelled.

        Raises:
            DeadlineExceeded: A deadline passed.
            Cancelled: It was cancelled; an exception given as the cause is its ``__cause__``.
        """
        if self.cancelled:
            raise self.error()

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Block this thread until the token is cancelled.

        Woken by ``cancel()`` on this token or an ancestor, and by its deadline. An interrupt
        leaves nothing behind. If a signal arrives in the few instructions before the wait begins,
        the interpreter runs its handler when the wait ends: nothing here polls for it.

        Args:
            timeout: Seconds >= 0 or a timedelta; None: no limit.

        Returns:
            True once it is cancelled, False if the time ran out before.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration of at least 0.
        """
        limit = self._limit(timeout)
        while not self.cancelled:
            if limit != NO_DEADLINE and self._clock.monotonic() >= limit:
                return False
            what = "CancellationToken.wait()"
            park_thread(self._clock, what, (self.wait_set(),), self._recheck, limit)
        return True

    async def wait_async(self, timeout: float | timedelta | None = None) -> bool:
        """Wait in a coroutine as ``wait()`` does in a thread, in any number of event loops.

        Takes, returns and raises what ``wait()`` does. If it is cancelled itself,
        ``asyncio.CancelledError`` passes and nothing stays behind.
        """
        limit = self._limit(timeout)
        while not self.cancelled:
            if limit != NO_DEADLINE and self._clock.monotonic() >= limit:
                return False
            await park_coroutine(self._clock, (self.wait_set(),), self._recheck, limit)
        return True

    def _limit(self, timeout: float | timedelta | None) -> float:
        if timeout is None:
            return NO_DEADLINE
        return self._clock.monotonic() + as_seconds("timeout", timeout)

    @property
    def _timed_by(self) -> Clock | None:
        return None if self._deadline is None else self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        return (self.wait_set(),)

    def _try(self, *, fresh: bool) -> object:  # noqa: ARG002 - a ticker wants to know
        return self.cause if self.cancelled else EMPTY

    def _recheck(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        if self.cancelled:
            return None
        limit = waiter.limit
        return limit if self._deadline is None else min(limit, self._deadline)

    def child(
        self, timeout: float | timedelta | None = None, deadline: float | None = None
    ) -> CancellationToken:
        """Return a token that is cancelled with this one, and can be without it.

        Its parent does not keep it alive. A child of a cancelled token is born cancelled.

        Args:
            timeout: Cancel it after so many seconds >= 0, or a timedelta.
            deadline: Cancel it at this time of the clock's ``monotonic()``. The earliest of both
                and of this token's own deadline counts.

        Raises:
            TypeError, ValueError: An argument is no finite number in its range.
        """
        limits = [] if self._deadline is None else [self._deadline]
        if timeout is not None:
            limits.append(self._clock.monotonic() + as_seconds("timeout", timeout))
        if deadline is not None:
            limits.append(as_number("deadline", deadline, "a finite number of monotonic seconds"))
        return derive_token(self._clock, (self,), min(limits, default=None))

    def on_cancel(self, callback: Callable[[], object]) -> CallbackHandle:
        """Have ``callback()`` called once when the token is cancelled; at once if it is already.

        It runs in the thread that cancels (for a deadline: in the scheduler thread), in the
        ``contextvars`` context of this call, and must not block. What it raises is reported
        through ``sys.unraisablehook`` and stops nothing. While it is registered, the token is
        kept alive by whatever can still cancel it.

        Returns:
            A handle whose ``remove()`` prevents the call.

        Raises:
            TypeError: ``callback`` is not callable.
            RuntimeError: The token has a deadline and the scheduler thread cannot be started.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {safe_repr(callback)}")
        handle = CallbackHandle(self, callback)
        if not self.cancelled:
            handle.pin()
        self._table("callbacks")[handle] = None
        if self.cancelled:
            interrupt = handle.run()
            if interrupt is not None:
                raise interrupt
        return handle

    def scope(self) -> Scope:
        """Return an ``async with`` block that this token cancels.

        A cancel, or the deadline, cancels the code inside through asyncio, and the block then
        raises ``Cancelled`` (``DeadlineExceeded``). If the task was cancelled from elsewhere too,
        ``asyncio.CancelledError`` wins. A body that ends normally all the same raises nothing and
        leaves no cancel behind.

        Raises (on entering):
            RuntimeError: It is not entered in a task.
        """
        from ._scope import Scope

        return Scope(self)

    def disarm(self) -> None:
        """Let the ``with`` block around end without cancelling."""
        self._armed = False

    def __enter__(self) -> Self:
        self._armed = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._armed:
            self.cancel()

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled else "open"
        if self.cancelled and self.cause is not None:
            state += f" ({type(self.cause).__name__})"
        elif self._deadline is not None:
            state += f", deadline={self._deadline!r}"
        return f"<CancellationToken {state}>"


class _DeadlineToken(CancellationToken):
    """A token that cancels itself: whoever looks after the deadline finds it cancelled."""

    __slots__ = ("_flag",)

    _flag: bool

    @property
    def cancelled(self) -> bool:
        if self._flag:
            return True
        if self._clock.monotonic() < self._deadline:  # type: ignore[operator]
            return self._flag  # a cancel may have come meanwhile
        self._mark((DeadlineExceeded(),))
        return True

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._flag = value


def derive_token(
    clock: Clock, parents: tuple[CancellationToken, ...], deadline: float | None
) -> CancellationToken:
    """Return a token that is cancelled with any of ``parents``, and at ``deadline`` by ``clock``.

    Deadlines of the parents reach it only as they cancel: they are to be reckoned with before.
    """
    cls = CancellationToken if deadline is None else _DeadlineToken
    token = cls.__new__(cls)
    token._begin(clock, parents, deadline)
    return token


def any_of(*tokens: CancellationToken) -> CancellationToken:
    """Return a token that is cancelled with the first of ``tokens``, with its cause.

    It keeps them alive, and they do not keep it alive. Cancelling it cancels none of them.

    Raises:
        TypeError: None is given, or one is no token.
        ValueError: Two have deadlines on different clocks.
    """
    if not tokens:
        raise TypeError("any_of() needs at least one token")
    for token in tokens:
        require_token("any_of()'s argument", token)
    timed = [token for token in tokens if token.deadline is not None]
    clock = (timed or tokens)[0]._clock
    for token in timed:
        if token._clock is not clock:
            raise ValueError(f"any_of() mixes deadlines on {clock!r} and {token._clock!r}")
    deadlines = [token.deadline for token in timed if token.deadline is not None]
    return derive_token(clock, tokens, min(deadlines, default=None))


def require_token(name: str, value: object) -> None:
    """Raise a TypeError that names the parameter unless ``value`` is a token."""
    if not isinstance(value, CancellationToken):
        raise TypeError(f"{name} must be a CancellationToken, not {safe_repr(value)}")
