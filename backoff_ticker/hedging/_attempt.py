"""One attempt of a hedged call, in a task or in a thread."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from types import CoroutineType

from .._errors import Cancelled, ChannelClosed, CircuitOpen
from .._operation import coroutine_returned, is_awaitable, not_awaitable, now
from .._validation import safe_repr
from ..clock import start_thread
from ..retries import Attempt, Ending, StopReason, current_attempt, show
from ..waiting import current_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Executor
    from typing import Any

    from ..cancellation import CancellationToken
    from ..retries import Outcome


def failed(component: str, error: BaseException) -> Ending:
    """Return the end of a call by an error that is not of its operation."""
    return Ending(StopReason.FAILED, f"{component} failed", error)


class HedgedAttempt:
    """One attempt, where it is made and for the call, which it tells once how it has ended.

    In a thread it may outlive the call. It is what ``Attempt`` takes for a run.
    """

    token: CancellationToken  # cancelled when it has ended, and when the call has
    outer: Attempt | None = None
    is_begun = False  # its task, or its job in a thread
    is_made = False  # it counts: the operation is called, or the circuit refuses that
    is_closed = False  # it has ended
    is_shown = True  # until then
    # It ended as its token told it to, which is no failure and no success. So does a thread that
    # returns after the token was cancelled.
    obeyed = False
    ended_by: BaseException | Ending | None = None  # an error, or why it was not made
    result: Any = None  # if it was ended by neither
    job: Any = None  # its task, or its future in a pool, as long as that may be cancelled
    _is_paid = False  # by the budget, and the operation was not called yet
    _component = ""  # what is in use, in case it raises

    def __init__(self, call: Any) -> None:  # a HedgedCall, whose file imports this one
        self._call = call
        self._number = call.attempts
        self.name, self.clock, self.limits = call.name, call.clock, call.schedule.limits

    def outcome(self) -> Outcome:
        """Return how far the call has come."""
        return self._call.outcome()  # type: ignore[no-any-return]

    def start(self, pool: Executor | None) -> None:
        """Start the task or the thread that makes the attempt."""
        call, name, shown = self._call, f"{self.name}, {self._number}", Attempt(self, self._number)
        self.token = shown.token
        call.running[self] = None  # first: whatever happens now, it is told of the end
        if call.awaits:
            self.job = current_loop().create_task(self._make(shown), name=name)
        else:
            make = partial(copy_context().run, partial(now, self._make, shown))
            if pool is None:
                start_thread(make, name)
                return
            self.job = pool.submit(make)
            self.job.add_done_callback(self._note_future)

    def withdraw(self) -> None:
        """Tell the attempt that the call has ended. May be repeated."""
        self.token.cancel("the hedged call has ended")
        job = self.job
        # In a closed loop nobody goes on with a task, and cancel() would fail.
        if job is not None and not (self._call.awaits and job.get_loop().is_closed()):
            job.cancel()

    def _note_future(self, future: Any) -> None:
        """Tell the call if the pool has not begun the attempt."""
        if not self.is_begun:
            why = "the pool cancelled an attempt that had not begun: was it shut down?"
            error = None if future.cancelled() else future.exception()
            self.ended_by = failed("the start of an attempt", error or RuntimeError(why))
            self._tell()

    def _tell(self) -> None:
        try:
            self._call.ended.send_nowait(self)
        except ChannelClosed:  # nobody looks at it, and its traceback refers to this
            self.ended_by = self.result = None

    # In the task or thread

    async def _make(self, shown: Attempt) -> None:
        """Make the attempt, and tell how it ended, whatever is raised."""
        self.is_begun, self.outer = True, current_attempt()
        show(shown)
        try:
            await self._pay_and_call()
        except Exception as failure:  # noqa: BLE001 - the call raises it
            self.ended_by = failed(self._component, failure)
        except BaseException as interrupt:  # noqa: BLE001 - the same
            self.ended_by = interrupt
        self.is_closed, self.is_shown = True, False
        shown.end()
        self._tell()

    async def _pay_and_call(self) -> None:
        budget, breaker, ticket = self._call.options.budget, self._call.options.breaker, None
        try:
            if budget is not None and self._number > 1 and not await self._pay(budget):
                return
            self.is_made = True
            if breaker is not None:
                self._component = "the circuit breaker"
                try:
                    ticket = breaker.allow()
                except CircuitOpen as refused:
                    self.ended_by = refused
                    return
            await self._call_operation(self._call)
            if breaker is not None and not (self.obeyed or isinstance(self.ended_by, Ending)):
                breaker.record(ticket, self.ended_by)
        finally:
            if breaker is not None and ticket is not None:
                breaker.release(ticket)  # no effect if the result was recorded
            if budget is not None and self._is_paid:
                budget.release()

    async def _pay(self, budget: Any) -> bool:
        self._component = "the budget"
        if self._call.awaits and self._call.options.awaits_budget:
            self._is_paid = await budget.try_acquire_async()
        else:
            self._is_paid = budget.try_acquire()
        if self._is_paid:  # the answer may have taken long
            self.ended_by = self.limits.reached(self.clock.monotonic())
        else:
            self.ended_by = Ending(StopReason.BUDGET, f"nothing left in {safe_repr(budget)}")
        return self.ended_by is None

    async def _call_operation(self, call: Any) -> None:
        """Call the operation, and keep what it returns or raises."""
        # Right before the call: later than that, nothing can prevent it.
        if call.is_over or (self.token.cancelled and self._number > 1):
            self.is_made, self.ended_by = False, self.limits.cancelled()
            return
        self._is_paid = False
        try:
            result = call.operation()
            if call.awaits and is_awaitable(result):
                result = await result
            elif call.awaits:
                self.ended_by = failed(self.name, not_awaitable(self.name, result))
            elif result.__class__ is CoroutineType:
                error = coroutine_returned(self.name, result, "use await hedge_call_async()")
                self.ended_by = failed(self.name, error)
            self.result = result
            self.obeyed = self.token.cancelled and not call.awaits
        except Exception as error:  # noqa: BLE001 - the call decides about it
            self.ended_by = error
            self.obeyed = isinstance(error, Cancelled) and self.token.cancelled
