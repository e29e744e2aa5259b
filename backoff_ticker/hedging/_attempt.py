"""One attempt of a hedged call, in a task or in a thread."""

from __future__ import annotations

from types import CoroutineType, coroutine

from .._errors import Cancelled, ChannelClosed, Permanent
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


class Attempt:
    """One attempt, where it is made and for the caller.

    It refers to no frame of the caller, which may return before an attempt in a thread ends.

    Attributes:
        token: Cancelled when the attempt has ended, and when the call has.
        job: Its task, or its future in a pool, until the caller was told of its end.
        is_begun: Whether it is made; None: that is not decided.
        not_made: Why the operation was not called; ``error`` is what prevented it, if anything.
        obeyed: Whether it ended as its token told it to: that is neither a failure nor a success.
            A thread that returns after the token was cancelled counts as if it had obeyed.
    """

    def __init__(self, run: Run, operation: Callable[[], Any], ended: Channel[Attempt]) -> None:
        self._run = run
        self._operation = operation
        self._ended = ended
        self._number = run.attempts
        self._is_paid = False
        self.token: CancellationToken = token_of_attempts(run)
        self.job: Any = None
        self.is_begun: bool | None = None
        self.not_made: StopReason | None = None
        self.obeyed: bool = False
        self.error: Any = None
        self.result: Any = None

    def decide(self, *, begins: bool) -> bool:
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

    async def make(self) -> None:
        """Make the attempt, unless it was withdrawn, and keep how it ended."""
        if not self.decide(begins=True):
            return
        run, budget, breaker = self._run, self._run.options.budget, self._run.options.breaker
        try:
            show_attempt(run, self._number, self.token)
            if self._number > 1 and budget is not None:
                await self._pay(budget)
            if self.not_made is None:
                await (self._call() if breaker is None else self._call_through(breaker))
        except BaseException as error:
            self.error = error
            raise
        finally:
            if self._is_paid:
                budget.release()

    async def _pay(self, budget: Any) -> None:
        run, self.not_made = self._run, StopReason.BUDGET
        if run.awaits and run.options.awaits_budget:
            self._is_paid = await budget.try_acquire_async()
        else:
            self._is_paid = budget.try_acquire()
        if self._is_paid:
            self.not_made = run.limit_reached()  # the answer may have taken long

    async def _call_through(self, breaker: Any) -> None:
        ticket = breaker.allow()
        try:
            await self._call()
            if self.not_made is not None or self.obeyed:
                breaker.release(ticket)  # it says nothing about the service
            else:
                breaker.record(ticket, self.error)
        except BaseException:
            complete(breaker.release, ticket)  # no effect if the result was counted
            raise

    async def _call(self) -> None:
        """Call the operation, and keep its result or error."""
        run = self._run
        # Right before the call: later than that, nothing can prevent it.
        if self._number > 1 and self.token.cancelled:
            self.not_made = StopReason.CANCELLED
            return
        self._is_paid = False
        try:
            result = self._operation()
            if run.awaits and is_awaitable(result):
                result = await result
            elif run.awaits:
                raise Permanent(not_awaitable(run.name, result))  # noqa: TRY301 - ends the call
            elif result.__class__ is CoroutineType:
                wrong = coroutine_returned(run.name, result, "use await hedge_call_async()")
                raise Permanent(wrong)  # noqa: TRY301 - the same
        except Exception as error:  # noqa: BLE001 - a coroutine cannot raise a StopIteration
            self.error = error
            self.obeyed = isinstance(error, Cancelled) and self.token.cancelled
        else:
            self.result = result
            self.obeyed = self.token.cancelled and not run.awaits

    def tell(self, error: BaseException | None = None) -> None:
        """Tell the caller that the attempt has ended: by ``error``, if that is given."""
        if error is not None:
            if self.decide(begins=False):
                self.not_made = StopReason.FAILED
            if self.is_begun or self.error is None:
                self.error = error
        try:
            self._ended.send_nowait(self)
        except ChannelClosed:
            self.error = None  # its traceback refers to this attempt: a reference cycle

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
            is_dropped = isinstance(error, GeneratorExit) and not self.is_begun
            self.tell(RuntimeError("no thread has made the attempt") if is_dropped else error)

    def note_future(self, future: Future[None]) -> None:
        """Tell the caller if a pool has not begun the attempt."""
        self.job = None
        if not self.is_begun:
            text = "the pool cancelled an attempt that had not begun: was it shut down?"
            error = None if future.cancelled() else future.exception()
            self.tell(error or RuntimeError(text))
