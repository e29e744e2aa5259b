"""The cancellation token: one object that cancels threads and coroutines alike."""

from __future__ import annotations

from .._errors import Cancelled, DeadlineExceeded
from .._process import ProcessBound
from .._sentinels import EMPTY
from .._validation import as_number, as_seconds, safe_repr
from ..clock import resolve_clock
from ..waiting import NO_DEADLINE, Source, WaitSet, complete, park_coroutine, park_thread
from ._exit import Exit
from ._scope import Scope
from ._tree import CallbackHandle, add_child, cancel_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, Self

    from ..clock import Clock
    from ..waiting import Waiter


class CancellationToken(Source, ProcessBound):
    """Tells any number of threads and event loops to stop what they do.

    Make one token for a piece of work, pass it to everything that takes part, and call ``cancel()``
    once to stop it all. Tickers, retries, ``select`` and ``wait()`` end at once, because a cancel
    wakes each of them and nothing polls. Code of yours checks ``cancelled`` or calls
    ``raise_if_cancelled()``. With a ``timeout`` or a ``deadline`` the token cancels itself at that
    time.

    As a context manager (``with token:``) it is cancelled at the end of the block, unless
    ``disarm()`` was called.

    Thread safety: every method may be called in any thread and event loop; ``cancel()`` also in
    signal handlers, finalizers and callbacks.

    Args:
        timeout: Cancel it after this time: seconds >= 0 or a timedelta. None means never.
        deadline: Cancel it when the clock's ``monotonic()`` reaches this number. If both are given,
            the earlier one counts.
        clock: Measures the deadlines of this token and its children. None means the current clock.

    Raises:
        TypeError, ValueError: ``timeout`` or ``deadline`` is not a finite number in its range.

    Attributes:
        cancelled: Whether it is cancelled, or its deadline has passed. Read-only. For a token
            without a deadline, as cheap to read as a plain attribute.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> token = CancellationToken()
        >>> child = token.child(timeout=60)
        >>> token.cancel("shutting down")
        True
        >>> child.wait(), child.cause
        (True, 'shutting down')
    """

    # Unpacked, as pyright would take the slot for its value, and that for a `property`.
    __slots__ = (*("__weakref__", "_cells", "_clock", "_deadline", "_parents", "cancelled"),)

    if TYPE_CHECKING:

        @property
        def cancelled(self) -> bool: ...
        def _selected(self) -> tuple[Self, BaseException | str | None]: ...

    _clock: Clock
    _parents: tuple[CancellationToken, ...]
    _deadline: float | None
    _cells: dict[str, Any]

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
        when = None
        if timeout is not None or deadline is not None:
            when = _earliest(clock, None, timeout, deadline)
            if type(self) is not CancellationToken:
                raise TypeError(
                    f"{type(self).__name__} cannot have a timeout or deadline, as a subclass "
                    "of CancellationToken: use its child(timeout, deadline)"
                )
            self.__class__ = _DeadlineToken
        self._begin(clock, (), when)

    def _begin(
        self, clock: Clock, parents: tuple[CancellationToken, ...], deadline: float | None
    ) -> None:
        _set_clock(self, clock)
        _set_parents(self, parents)
        _set_deadline(self, deadline)
        _set_cells(self, {})
        _set_cancelled(self, False)  # noqa: FBT003
        for parent in parents:
            add_child(parent, self)
        for parent in parents:  # after that: see the invariants of the tree
            if parent.cancelled:
                self._mark(parent._cells["cause"])
                return

    def _mark(self, cause: tuple[BaseException | str | None]) -> bool:
        """Mark only this token as cancelled; True if no other cause was stored before."""
        won = self._cells.setdefault("cause", cause) is cause
        _set_cancelled(self, True)  # noqa: FBT003
        return won

    def __setattr__(self, name: str, value: object) -> None:
        if name == "cancelled":
            raise AttributeError("cancelled is read-only: call cancel()")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name == "cancelled":
            raise AttributeError("cancelled is read-only: call cancel()")
        super().__delattr__(name)

    def cancel(self, cause: BaseException | str | None = None) -> bool:
        """Cancel this token and all its descendants, and wake everything that waits for them.

        It never blocks. Callbacks run in the calling thread before it returns, except those that
        another call, or an outer one in this thread, is already running.

        Args:
            cause: The reason: an exception, a text or None. The first cause stays.

        Returns:
            True for the one call that cancelled the token, False for any other. In both cases all
            descendants are cancelled when it returns.

        Raises:
            TypeError: ``cause`` is something else.
            BaseException: A callback raised a ``KeyboardInterrupt`` or the like; it is raised again
                after everything is cancelled.
        """
        if cause is not None and not isinstance(cause, (BaseException, str)):
            raise TypeError(f"cause must be an exception, a str or None, not {safe_repr(cause)}")
        return complete(self._cancel, (cause,))

    def _cancel(self, cause: tuple[BaseException | str | None]) -> bool:
        won = not self.cancelled and self._mark(cause)
        cancel_tree(self)  # also if it did not win: it returns only when all are cancelled
        return won

    @property
    def cause(self) -> BaseException | str | None:
        """The cause given to ``cancel()``, or a ``DeadlineExceeded``; None if not cancelled."""
        return self._cells["cause"][0] if self.cancelled else None

    @property
    def clock(self) -> Clock:
        """The clock that measures the deadlines of this token and its children."""
        return self._clock

    @property
    def deadline(self) -> float | None:
        """When the token cancels itself, in the clock's monotonic seconds; None if never.

        This is the earliest of its own deadline and those of its parents.
        """
        return self._deadline

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, at least 0.0; None without a deadline."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - self._clock.monotonic())

    def _error(self) -> Cancelled:
        """Return a new error with the cause, as ``raise_if_cancelled()`` raises it."""
        cause = self.cause
        if isinstance(cause, DeadlineExceeded):
            return DeadlineExceeded(cause)
        error = Cancelled(cause)
        if isinstance(cause, BaseException):
            error.__cause__ = cause
        return error

    def raise_if_cancelled(self) -> None:
        """Raise ``Cancelled`` if the token is cancelled, else do nothing.

        Raises:
            DeadlineExceeded: A deadline passed. It is a ``Cancelled``, too.
            Cancelled: The token was cancelled. If the cause is an exception, it is the
                ``__cause__``.
        """
        if self.cancelled:
            raise self._error()

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Block this thread until the token is cancelled.

        Instead of ``time.sleep(seconds)``, ``token.wait(seconds)`` sleeps until a cancel.

        Wakes when: this token or an ancestor is cancelled, or its deadline passes.
        If interrupted: nothing stays behind. A signal that arrives in the few instructions before
        the wait begins is handled when the wait ends.

        Args:
            timeout: Seconds >= 0 or a timedelta; None means no limit.

        Returns:
            True if the token is cancelled, False if the timeout ran out before.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: It has to wait, and an event loop runs in this thread: use
                ``wait_async()``.
        """
        limit = self._limit(timeout)
        while not self.cancelled:
            if limit != NO_DEADLINE and self._clock.monotonic() >= limit:
                return False
            park_thread(
                self._clock,
                "CancellationToken.wait()",
                "await token.wait_async()",
                (self._wait_set(),),
                self._recheck,
                limit,
            )
        return True

    async def wait_async(self, timeout: float | timedelta | None = None) -> bool:
        """Wait in a coroutine until the token is cancelled, in any number of event loops.

        Arguments, result and errors are those of ``wait()``.

        If cancelled: ``asyncio.CancelledError`` is raised, and nothing stays behind.
        """
        limit = self._limit(timeout)
        while not self.cancelled:
            if limit != NO_DEADLINE and self._clock.monotonic() >= limit:
                return False
            await park_coroutine(self._clock, (self._wait_set(),), self._recheck, limit)
        return True

    def _limit(self, timeout: float | timedelta | None) -> float:
        if timeout is None:
            return NO_DEADLINE
        return self._clock.monotonic() + as_seconds("timeout", timeout)

    def _wait_set(self) -> WaitSet:
        """Return where waiters of this token register; made with the first of them."""
        found: WaitSet | None = self._cells.get("waiters")
        return found or self._cells.setdefault("waiters", WaitSet())

    @property
    def _timing_clock(self) -> Clock | None:
        return None if self._deadline is None else self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        return (self._wait_set(),)

    def _take_nowait(self, *, fresh: bool) -> object:  # noqa: ARG002 - for tickers
        return self.cause if self.cancelled else EMPTY

    def _recheck(self, waiter: Waiter) -> float | None:
        if self.cancelled:
            return None
        limit = waiter.limit
        return limit if self._deadline is None else min(limit, self._deadline)

    def child(
        self, timeout: float | timedelta | None = None, deadline: float | None = None
    ) -> CancellationToken:
        """Return a new token that is cancelled with this one, or alone.

        The child of a cancelled token is cancelled from the start. Its deadline is the earliest of
        ``timeout``, ``deadline`` and this token's deadline. Keep a reference to the child: its
        parent does not.

        Args:
            timeout: Cancel it after this time: seconds >= 0 or a timedelta.
            deadline: Cancel it when the clock's ``monotonic()`` reaches this number.

        Raises:
            TypeError, ValueError: An argument is not a finite number in its range.
        """
        when = _earliest(self._clock, self._deadline, timeout, deadline)
        return derive_token(self._clock, (self,), when)

    def on_cancel(self, callback: Callable[[], object]) -> CallbackHandle:
        """Call ``callback()`` once when the token is cancelled; now, if it already is.

        The callback runs in the thread that cancels (for a deadline, in the scheduler thread), in a
        copy of the ``contextvars`` context of this call. It must not block. Its errors go to
        ``sys.unraisablehook``. While a callback is registered, everything that can cancel the token
        keeps the token alive.

        Returns:
            A handle whose ``remove()`` prevents the call.

        Raises:
            TypeError: ``callback`` is not callable.
            RuntimeError: The token has a deadline, and the scheduler thread cannot be started.
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {safe_repr(callback)}")
        handle = CallbackHandle(self, callback)
        try:
            handle._register()
            interrupt = handle._run() if self.cancelled else None
        except BaseException:
            handle.remove()
            raise
        if interrupt is not None:
            raise interrupt
        return handle

    def scope(self) -> Scope[Self]:
        """Return an ``async with`` block that is cut when the token is cancelled.

        A cancel, or the deadline, cancels the code in the block through asyncio; the block then
        raises ``Cancelled`` or ``DeadlineExceeded``. If the task was also cancelled by others, it
        raises ``asyncio.CancelledError`` instead. A body that ends normally all the same raises
        nothing, and no cancel stays pending.

        Raises:
            RuntimeError: On entering the block: the calling code does not run in a task.
        """
        return Scope(self)

    def disarm(self) -> None:
        """Do not cancel the token at the end of the ``with token:`` block."""
        self._cells["armed"] = False

    def __enter__(self) -> Self:
        self._cells["armed"] = self._cells.pop("guard", True)
        return self

    __exit__ = Exit()

    def _leave(self, *_: object) -> None:
        if self._cells.get("armed", True):
            complete(self.cancel)
            self._cells["armed"] = True  # without the guard

    def _leave_statement(self, guard: object) -> None:
        if self._cells.get("armed") is guard:
            self._leave()

    def __repr__(self) -> str:
        try:
            left = None if self.cancelled else self.remaining()
        except Exception:  # noqa: BLE001 - of the clock that measures the deadline
            left = None
        state = "open" if left is None else f"open, {round(left, 3)} s left"
        for cause in self._cells.get("cause", ()):
            # Only the type of an exception: its text may be secret.
            shown = safe_repr(cause) if isinstance(cause, str) else type(cause).__name__
            state = "cancelled" if cause is None else f"cancelled: {shown}"
        return f"<CancellationToken {state}>"


# The setters of the slots: ``__setattr__``, which keeps ``cancelled`` read-only, is slow, and a
# property would make ``cancelled`` slow to read.
_set_clock, _set_parents, _set_deadline, _set_cells, _set_cancelled = (
    CancellationToken.__dict__[name].__set__
    for name in ("_clock", "_parents", "_deadline", "_cells", "cancelled")
)


class _DeadlineToken(CancellationToken):
    """A token with a deadline: after the deadline every check finds it cancelled.

    It has no slots of its own, so that a token can become one.
    """

    __slots__ = ()

    _marked: bool = CancellationToken.__dict__["cancelled"]
    """The slot: whether a cancel, or a check after the deadline, has marked it."""

    @property
    def cancelled(self) -> bool:
        if self._marked:
            return True
        if self._clock.monotonic() < self._deadline:  # type: ignore[operator]
            return self._marked  # a cancel may have come while the clock was read
        self._mark((DeadlineExceeded(),))
        return True


def _earliest(
    clock: Clock, inherited: float | None, timeout: float | timedelta | None, deadline: float | None
) -> float | None:
    """Return the earliest of a parent's deadline and those that are given; None: there is none."""
    limits = [] if inherited is None else [inherited]
    if timeout is not None:
        limits.append(clock.monotonic() + as_seconds("timeout", timeout))
    if deadline is not None:
        limits.append(as_number("deadline", deadline, "a finite number of monotonic seconds"))
    return min(limits, default=None)


def derive_token(
    clock: Clock, parents: tuple[CancellationToken, ...], deadline: float | None
) -> CancellationToken:
    """Return a token that is cancelled with any of ``parents``, and at ``deadline`` by ``clock``.

    ``deadline`` must not be later than a deadline of the parents; that is not checked here.
    """
    cls = CancellationToken if deadline is None else _DeadlineToken
    token = cls.__new__(cls)
    token._begin(clock, parents, deadline)
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
    timed = [token for token in tokens if token.deadline is not None]
    clock = (timed or tokens)[0]._clock
    for token in timed:
        if token._clock is not clock:
            raise ValueError(
                f"any_of() needs deadlines on one clock, not on {clock!r} and {token._clock!r}"
            )
    deadlines = [token.deadline for token in timed if token.deadline is not None]
    return derive_token(clock, tokens, min(deadlines, default=None))


def require_token(name: str, value: object) -> None:
    """Raise a TypeError that names the parameter unless ``value`` is a token."""
    if not isinstance(value, CancellationToken):
        raise TypeError(f"{name} must be a CancellationToken, not {safe_repr(value)}")
