"""One attempt of a hedged call, in a task or in a thread."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from types import CoroutineType

from .._errors import Cancelled, CircuitOpen
from .._operation import coroutine_returned, is_awaitable, not_awaitable, run_at_once
from .._validation import safe_repr
from ..clock import start_thread
from ..retries import Attempt, Ending, StopReason, show
from ..waiting import interruptible_in_trio, protected_in_trio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..cancellation import CancellationToken


def failed(component: str, error: BaseException) -> Ending:
    """Return the end of a call by an error that is not of its operation."""
    return Ending(StopReason.FAILED, f"{component} failed", error)


class HedgedAttempt:
    """One attempt, which may outlive its call, and tells it once how it has ended.

    It is what ``Attempt`` takes for a run.
    """

    token: CancellationToken  # cancelled when it has ended, and when the call has
    is_begun = False  # in its task or thread
    is_made = False  # it counts: the operation is called, or the circuit refuses that
    is_shown = True  # by current_attempt(), until it has ended
    obeyed = False  # it ended as its token told it to, which is no failure and no success
    ended_by: BaseException | Ending | None = None  # an error; why it was not made; what has failed
    result: Any = None  # if nothing of that has ended it
    job: Any = None  # its task, or its future in a pool
    _is_paid = False  # by the budget, and the operation was not called yet
    _component = ""  # what is in use, in case it raises

    def __init__(self, call: Any) -> None:  # a HedgedCall, whose file imports this one
        self._call, self._number = call, call.attempts
        self.name, self.clock, self.limits = call.name, call.clock, call.limits
        self.outcome = call.outcome

    def start(self, pool: Any) -> None:
        """Start the task or the thread that makes the attempt."""
        shown, name = Attempt(self, self._number), f"{self.name}, {self._number}"
        self.token = shown.token
        self._call.running[self] = None  # first: whatever happens now, it is told of the end
        make = partial(copy_context().run, run_at_once, self._make, shown)
        if self._call.awaits:
            self.job = self._call.tasks.create_task(self._make(shown), name=name)
        elif pool is None:
            start_thread(make, name)
        else:
            self.job = pool.submit(make)
            self.job.add_done_callback(self._note_future)

    def withdraw(self) -> None:
        """Tell the attempt that the call has ended. May be repeated."""
        self.token.cancel("the hedged call has ended")
        try:
            if self.job is not None:
                self.job.cancel()
        except RuntimeError:  # its loop was closed: nobody goes on with it
            pass

    def _note_future(self, future: Any) -> None:
        """Tell the call if the pool has not begun the attempt."""
        if not self.is_begun:
            why = "the pool cancelled an attempt that had not begun: was it shut down?"
            error = None if future.cancelled() else future.exception()
            self.ended_by = failed("the start of an attempt", error or RuntimeError(why))
            self._tell()

    def _tell(self) -> None:
        ends = self._call.ends
        if ends is None:  # nobody looks at it, and its traceback refers to this
            self.ended_by = self.result = None
        else:
            ends.send_nowait(self)

    # In the task or thread

    @protected_in_trio
    async def _make(self, shown: Attempt) -> None:
        """Make the attempt, and tell how it ended, whatever is raised."""
        self.is_begun = True
        show(shown)
        try:
            await self._pay_and_call()
        except BaseException as error:  # the call raises it
            is_failure = isinstance(error, Exception)
            self.ended_by = failed(self._component, error) if is_failure else error
        self.is_shown = False
        shown.end()
        self._tell()

    @interruptible_in_trio
    async def _pay_and_call(self) -> None:
        budget, breaker, ticket = self._call.options.budget, self._call.options.breaker, None
        try:
            if budget is not None and self._number > 1 and not await self._pay(budget):
                return
            if breaker is not None:
                self._component, self.is_made = "the circuit breaker", True
                try:
                    ticket = breaker.allow()
                except CircuitOpen as refused:
                    self.ended_by = refused
                    return
            await self._call_operation()
            if breaker is not None and not (self.obeyed or isinstance(self.ended_by, Ending)):
                breaker.record(ticket, self.ended_by)
        finally:
            if ticket is not None:
                breaker.release(ticket)  # no effect if the result was recorded
            if self._is_paid:
                budget.release()

    async def _pay(self, budget: Any) -> bool:
        self._component = "the budget"
        if self._call.awaits and self._call.options.awaits_budget:
            self._is_paid = await budget.try_acquire_async()
        else:
            self._is_paid = budget.try_acquire()
        self.ended_by = self.limits.reached()  # the answer may take long
        if not self._is_paid:
            self.ended_by = Ending(StopReason.BUDGET, f"nothing left in {safe_repr(budget)}")
        return self.ended_by is None

    async def _call_operation(self) -> None:
        """Call the operation, and keep what it returns or raises."""
        operation, awaits = self._call.operation, self._call.awaits
        # Right before the call: later than that, nothing can prevent it.
        self.is_made = operation is not None and not (self.token.cancelled and self._number > 1)
        if not self.is_made:
            self.ended_by = self.limits.ending_by_token()
            return
        self._is_paid = False
        try:
            self.result = result = operation()
            if awaits and is_awaitable(result):
                self.result = await result
            elif awaits:
                self.ended_by = failed(self.name, not_awaitable(self.name, result))
            elif result.__class__ is CoroutineType:
                error = coroutine_returned(self.name, result, "use await hedge_call_async()")
                self.ended_by = failed(self.name, error)
            self.obeyed = self.token.cancelled and not awaits
        except Exception as error:  # the call decides about it
            self.ended_by = error
            self.obeyed = isinstance(error, Cancelled) and self.token.cancelled
