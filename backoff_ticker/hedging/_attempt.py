"""One attempt of a hedged call, in a task or in a thread."""

from __future__ import annotations

from types import CoroutineType, coroutine

from .._errors import BackoffTickerError, Cancelled, ChannelClosed, Permanent
from .._operation import coroutine_returned, is_awaitable, not_awaitable
from ..retries import StopReason, show_attempt, token_of_attempts
from ..waiting import FREE, acquire, cancelled_error, claim_of, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Generator
    from concurrent.futures import Future
    from typing import Any

    from ..cancellation import CancellationToken
    from ..channels import Channel
    from ..retries import Run


class NotMade(BackoffTickerError):
    """Ends an attempt that is not made after all; its cause is the error that prevented it."""

    def __init__(self, reason: StopReason) -> None:
        self.reason: StopReason = reason


class Attempt:
    """One attempt, where it is made and for the caller.

    It refers to no frame of the caller, which may return before an attempt in a thread ends.

    Attributes:
        token: Cancelled when the attempt has ended, and when the call has.
        job: Its task, or its future in a pool, until the caller was told of its end.
        is_begun: Whether it is made; None: that is not decided.
        obeyed: Whether it ended as its token told it to: that is neither a failure nor a success.
            A thread that returns after the token was cancelled counts as if it had obeyed.
    """

    def __init__(self, run: Run, operation: Callable[[], Any], ended: Channel[Attempt]) -> None:
        self._run = run
        self._operation = operation
        self._ended = ended
        self._number = run.attempts
        self._asks_budget: bool = run.attempts > 1 and run.options.awaits_budget
        self._is_paid: bool = run.attempts > 1 and not self._asks_budget
        self._error: Any = None
        self.token: CancellationToken = token_of_attempts(run)
        self.job: Any = None
        self.is_begun: bool | None = None
        self.obeyed: bool = False
        self.result: Any = None

    async def make(self) -> None:
        """Make the attempt, unless it was withdrawn, and keep how it ended."""
        if not self._decide(begins=True):
            return
        try:
            show_attempt(self._run, self._number, self.token)
            if self._asks_budget:
                await self._pay()
            # Not raised: a coroutine cannot raise the StopIteration of an operation.
            self._error = await self._call_through(self._run.options.breaker)
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._refund()

    async def _pay(self) -> None:
        run, budget = self._run, self._run.options.budget
        try:
            self._is_paid = await budget.try_acquire_async() if run.awaits else budget.try_acquire()
        except Exception as failure:
            raise NotMade(StopReason.BUDGET) from failure
        # The answer may have taken long.
        reason = run.limit_reached() if self._is_paid else StopReason.BUDGET
        if reason is not None:
            raise NotMade(reason)

    async def _call_through(self, breaker: Any) -> Exception | None:
        if breaker is None:
            return await self._call()
        ticket = breaker.allow()
        try:
            error = await self._call()
            if isinstance(error, NotMade) or (error is not None and self.obeyed):
                breaker.release(ticket)  # it says nothing about the service
            else:
                breaker.record(ticket, error)
        except BaseException:
            complete(breaker.release, ticket)  # no effect if the result was counted
            raise
        return error

    async def _call(self) -> Exception | None:
        """Call the operation and keep its result; return its error."""
        run = self._run
        # Right before the call: later than that, nothing can prevent it.
        if self._number > 1 and self.token.cancelled:
            return NotMade(StopReason.CANCELLED)
        self._is_paid = False
        try:
            result = self._operation()
            if run.awaits:
                if not is_awaitable(result):
                    return Permanent(not_awaitable(run.name, result))
                result = await result
        except Exception as error:  # noqa: BLE001 - the caller decides about it
            self.obeyed = isinstance(error, Cancelled) and self.token.cancelled
            return error
        if result.__class__ is CoroutineType and not run.awaits:
            wrong = coroutine_returned(run.name, result, "use await hedge_call_async()")
            return Permanent(wrong)
        self.result = result
        self.obeyed = self.token.cancelled and not run.awaits
        return None

    def tell(self, error: BaseException | None = None) -> None:
        """Tell the caller that the attempt has ended, by ``error`` if that is given."""
        if error is not None:
            self._error = error
        try:
            self._ended.send_nowait(self)
        except ChannelClosed:
            self._error = None  # its traceback refers to this attempt: a reference cycle

    def tell_if_not_begun(self, cause: BaseException) -> None:
        """Tell the caller what has prevented the attempt, unless it has begun or was withdrawn."""
        if self.withdraw():
            if isinstance(cause, GeneratorExit):  # of a generator that was dropped
                cause = RuntimeError("no thread has made the attempt")
            error = NotMade(StopReason.FAILED)
            error.__cause__ = cause
            self.tell(error if isinstance(cause, Exception) else cause)

    def take_error(self) -> Any:
        """Return what it raised, and forget it."""
        error, self._error = self._error, None
        return error

    def withdraw(self) -> bool:
        """Prevent an attempt that has not begun; return whether this call has prevented it."""
        prevented = self._decide(begins=False)
        if prevented:
            self._refund()
        return prevented

    def _decide(self, *, begins: bool) -> bool:
        """Decide whether the attempt is made; return False if that was decided before."""
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
        budget, is_paid, self._is_paid = self._run.options.budget, self._is_paid, False
        if is_paid and budget is not None:
            budget.release()

    # In its task, in its thread, in a pool

    def note_task(self, task: Task[None]) -> None:
        """Tell the caller, once, that the task of the attempt has ended."""
        if self.job is not None:
            if not task.cancelled():
                task.exception()  # retrieve it, or asyncio would report it
            # A task that is cancelled before its first step does not make its attempt.
            self.tell(None if self.is_begun else cancelled_error()())
            self.job = None

    @coroutine
    def in_thread(self) -> Generator[Any, Any, None]:
        """Make the attempt, and tell the caller how it ended, whatever is raised.

        The caller takes the first step, so that in the thread no instruction is outside the
        ``try``.
        """
        try:
            yield
            yield from self.make()
            self.tell()
        except BaseException as error:  # noqa: BLE001 - the caller decides about it
            tell = self.tell if self.is_begun else self.tell_if_not_begun
            tell(error)

    def note_future(self, future: Future[None]) -> None:
        """Tell the caller if a pool has not begun the attempt."""
        self.job = None
        if not self.is_begun:
            error = None if future.cancelled() else future.exception()
            text = "the pool cancelled an attempt that had not begun: was it shut down?"
            self.tell_if_not_begun(error or RuntimeError(text))
