"""One attempt of a hedged call, in a task or in a thread."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from types import CoroutineType

from .._error_chain import append_cause
from .._errors import Cancelled, CircuitOpen
from .._operation import coroutine_returned, is_awaitable, not_awaitable, run_at_once
from ..clock import start_thread
from ..retries import Attempt, Ending, StopReason, pay, show
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

    It is what ``Attempt`` and ``pay()`` take for a run.
    """

    token: CancellationToken  # cancelled when it has ended, and when the call has
    is_shown = False  # by current_attempt(): it has begun, and has not ended
    is_made = False  # it counts: the operation is called, or the circuit refuses that
    is_paid = False  # by the budget, and the operation was not called yet
    obeyed = False  # it ended as its token told it to, which is no failure and no success
    component = ""  # what is in use, in case it raises
    _ended_by: BaseException | Ending | None = None  # an error; why it was not made; what failed
    _result: Any = None  # if nothing of that has ended it

    def __init__(self, call: Any) -> None:  # a HedgedCall, whose file imports this one
        self._call, self._number = call, call.attempts
        self.name, self.clock, self.limits = call.name, call.clock, call.limits
        self.options, self.awaits, self.outcome = call.options, call.awaits, call.outcome

    def start(self, pool: Any) -> None:
        """Start the task or the thread that makes the attempt."""
        shown, name = Attempt(self, self._number), f"{self.name}, {self._number}"
        self.token, running = shown.token, self._call.running
        running[self] = None  # first: whatever happens now, it is told of the end
        make = partial(copy_context().run, run_at_once, self._make, shown)
        if self.awaits:
            running[self] = self._call.tasks.create_task(self._make(shown), name=name)
        elif pool is None:
            start_thread(make, name)
        else:
            running[self] = future = pool.submit(make)
            future.add_done_callback(self._note_future)

    def _note_future(self, future: Any) -> None:
        """Tell the call if the pool has not made the attempt."""
        why = "the pool cancelled an attempt that had not begun: was it shut down?"
        error = RuntimeError(why) if future.cancelled() else future.exception()
        if error is not None:
            self._ended_by = failed("the start of an attempt", error)
            self._tell()

    def _tell(self) -> None:
        ends = self._call.ends
        if ends is not None:  # else nobody looks at it
            ends.send_nowait((self, self._ended_by, self._result))
        self._ended_by = self._result = None  # they refer to this: a reference cycle

    # In the task or thread

    @protected_in_trio
    async def _make(self, shown: Attempt) -> None:
        """Make the attempt, and tell how it ended, whatever is raised."""
        show(shown)
        try:
            await self._pay_and_call()
        except Exception as error:
            if isinstance(self._ended_by, Exception):  # of the operation
                append_cause(error, self._ended_by)
            self._ended_by = failed(self.component, error)
        except BaseException as error:  # the call raises it
            self._ended_by = error
        self.is_shown = False
        shown.end()
        self._tell()

    @interruptible_in_trio
    async def _pay_and_call(self) -> None:
        budget, breaker, ticket = self.options.budget, self.options.breaker, None
        try:
            if budget is not None and self._number > 1:
                self._ended_by = await pay(self)
            if breaker is not None and self._ended_by is None:
                self.component, self.is_made = "the circuit breaker", True
                try:
                    ticket = breaker.allow()
                except CircuitOpen as refused:
                    self._ended_by = refused
            if self._ended_by is None:
                await self._call_operation()
            if ticket is not None and not (self.obeyed or isinstance(self._ended_by, Ending)):
                breaker.record(ticket, self._ended_by)
        finally:
            if ticket is not None:
                breaker.release(ticket)  # no effect if the result was recorded
            if self.is_paid:
                budget.release()

    async def _call_operation(self) -> None:
        """Call the operation, and keep what it returns or raises."""
        operation, awaits = self._call.operation, self.awaits
        # Right before the call: later than that, nothing can prevent it.
        self.is_made = operation is not None and not (self.token.cancelled and self._number > 1)
        if not self.is_made:
            self._ended_by = self.limits.ending_by_token()
            return
        self.is_paid = False
        try:
            self._result = result = operation()
            if awaits and is_awaitable(result):
                self._result = await result
            elif awaits:
                self._ended_by = failed(self.name, not_awaitable(self.name, result))
            elif result.__class__ is CoroutineType:
                error = coroutine_returned(self.name, result, "use await hedge_call_async()")
                self._ended_by = failed(self.name, error)
            self.obeyed = self.token.cancelled and not awaits
        except Exception as error:  # the call decides about it
            self._ended_by = error
            self.obeyed = isinstance(error, Cancelled) and self.token.cancelled
