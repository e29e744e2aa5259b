"""One attempt of a hedged call, the same in a task and in a thread."""

from __future__ import annotations

from types import CoroutineType

from .._errors import BackoffTickerError, Cancelled, ChannelClosed, Permanent
from ..retries import (
    StopReason,
    coroutine_returned,
    is_awaitable,
    not_awaitable,
    show_attempt,
    token_of_attempts,
)
from ..waiting import FREE, acquire, claim_of, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..cancellation import CancellationToken
    from ..channels import Channel
    from ..retries import CircuitBreaker, Run


class NotMade(BackoffTickerError):
    """Ends an attempt that is not made after all. Its cause is the error that prevented it, if any.

    Attributes:
        reason: Why it is not made.
    """

    def __init__(self, reason: StopReason) -> None:
        self.reason: StopReason = reason


class Attempt:
    """One attempt, where it is made and for the caller.

    It refers to no frame of the caller, which may return before an attempt in a thread ends.

    Attributes:
        job: Its task, or its future in a pool; None: there is none, or its end was told.
        token: Cancelled when the attempt has ended, and when the call has; None: nobody sees it.
        is_begun: Whether it is, or was, made; None: that is not decided.
        result: What the operation returned.
    """

    def __init__(self, run: Run, operation: Callable[[], Any], ended: Channel[Attempt]) -> None:
        options = run.options
        costs = run.attempts > 1 and options.budget is not None
        is_seen = run.is_tracked or not run.awaits
        self._run = run
        self._operation = operation
        self._ended = ended
        self._number = run.attempts
        self._asks_budget: bool = costs and options.awaits_budget
        self._is_paid: bool = costs and not options.awaits_budget
        self._error: Any = None
        self.is_begun: bool | None = None
        self.job: Any = None
        self.token: CancellationToken | None = token_of_attempts(run) if is_seen else None
        self.result: Any = None

    # Where it is made

    async def make(self) -> None:
        """Make the attempt, unless it was withdrawn, and keep how it ended.

        A thread runs it to its end by one ``send()``.
        """
        if not self._take(begins=True):
            return
        try:
            if self.token is not None:
                show_attempt(self._run, self._number, self.token)
            if self._asks_budget:
                await self._pay()
            breaker = self._run.options.breaker
            # Not raised: a coroutine cannot raise the StopIteration of an operation.
            self._error = await (self._call() if breaker is None else self._call_through(breaker))
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._refund()

    async def _pay(self) -> None:
        run = self._run
        budget = run.options.budget
        try:
            answer = budget.try_acquire_async() if run.awaits else budget.try_acquire()
            self._is_paid = await answer if run.awaits else answer
        except Exception as failure:
            raise NotMade(StopReason.BUDGET) from failure
        # The answer may have taken long.
        reason = run.limit_reached() if self._is_paid else StopReason.BUDGET
        if reason is not None:
            raise NotMade(reason)

    async def _call(self) -> Exception | None:
        """Call the operation and keep its result; return its error."""
        run = self._run
        token = run.token if self.token is None else self.token
        # Right before the call: later than that, nothing can prevent it.
        if token is not None and self._number > 1 and token.cancelled:
            return NotMade(StopReason.CANCELLED)
        self._is_paid = False
        try:
            result = self._operation()
            if run.awaits:
                if not is_awaitable(result):
                    return Permanent(not_awaitable(run.name, result))
                result = await result
        except Exception as error:  # noqa: BLE001 - the caller decides about it
            return error
        if result.__class__ is CoroutineType and not run.awaits:
            instead = "use await hedge_call_async()"
            return Permanent(coroutine_returned(run.name, result, instead))
        self.result = result
        return None

    async def _call_through(self, breaker: CircuitBreaker) -> Exception | None:
        ticket = breaker.allow()
        try:
            error = await self._call()
            if isinstance(error, NotMade) or self.ends_as_told(error):
                breaker.release(ticket)  # it says nothing about the service
            else:
                breaker.record(ticket, error)
        except BaseException:
            complete(breaker.release, ticket)  # no effect if the result was counted
            raise
        return error

    def ends_as_told(self, error: BaseException | None) -> bool:
        """Whether ``error`` says that the token of this attempt was cancelled."""
        return isinstance(error, Cancelled) and self.token is not None and self.token.cancelled

    # Its end

    def tell(self, error: BaseException | None = None) -> None:
        """Tell the caller that it has ended, by ``error`` if that is given; may be repeated."""
        if error is not None:
            self._error = error
        try:
            self._ended.send_nowait(self)
        except ChannelClosed:
            self._error = None  # its traceback refers to this attempt: a reference cycle

    def tell_if_not_begun(self, cause: BaseException) -> None:
        """Tell the caller what has prevented the attempt, unless it has begun or was withdrawn."""
        if self.withdraw():
            error = NotMade(StopReason.FAILED)
            error.__cause__ = cause
            self.tell(error if isinstance(cause, Exception) else cause)

    def take_error(self) -> Any:
        """Return what it raised, and forget it; None: the operation returned ``result``."""
        error, self._error = self._error, None
        return error

    def withdraw(self) -> bool:
        """Prevent an attempt that has not begun; True if this is what prevented it."""
        prevented = self._take(begins=False)
        if prevented:
            self._refund()
        return prevented

    def _take(self, *, begins: bool) -> bool:
        """Whether it is this call that decides whether the attempt is made: the first one."""
        claim = claim_of(self)
        acquire(claim)
        try:
            is_first = self.is_begun is None
            if is_first:
                self.is_begun = begins
        finally:
            claim[FREE] = True
        return is_first

    def _refund(self) -> None:
        if self._is_paid:
            self._is_paid = False
            self._run.options.budget.release()
