"""One hedged call: its attempts start, end, and one of these ends decides."""

from __future__ import annotations

from .._error_chain import append_cause
from .._errors import Cancelled, RejectedResult
from .._operation import answered, name_of
from ..channels import Channel, block_on, select_async
from ..clock import resolve_clock
from ..retries import (
    ASK_ON,
    Ending,
    Outcome,
    StopReason,
    ask_on,
    classify,
    fall_back,
    final_error,
    takes_fallback,
    told,
)
from ..waiting import NO_DEADLINE, cancelled_error, checkpoint
from ._attempt import HedgedAttempt, failed
from ._schedule import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Executor
    from typing import Any

    from ..clock import Clock
    from ..retries import Options


class HedgedCall:
    """One call; if it ``awaits``, its attempts are tasks, which can be cut, else threads.

    Its coroutine functions suspend only if it awaits: a thread calls them with ``now()``.
    """

    attempts = 0  # how many were started, without those that were not made
    is_over = False  # no attempt begins any more
    error: Any = None  # of the last attempt that failed
    result: Any = None  # of the last attempt that returned
    final: BaseException | None = None  # what to raise at the end; None: there is a result
    _reason: StopReason | None = None  # why it ended
    _ended = 0.0  # when
    _component = ""  # what is in use, in case it raises

    def __init__(
        self, options: Options, operation: Any, *, pool: Executor | None = None, awaits: bool
    ) -> None:
        self.options = options
        self.operation: Any = operation
        self.name: str = options.name or name_of(operation)
        self.awaits = awaits
        self._pool = pool
        self.clock: Clock = options.clock or resolve_clock(None)
        self._began = self.clock.monotonic()
        self.schedule = Schedule(options, self.clock)
        self.running: dict[HedgedAttempt, None] = {}  # attempts whose end was not handled yet
        self.ended: Channel[HedgedAttempt] = Channel(float("inf"), clock=self.clock)

    def outcome(self) -> Outcome:
        """Return how far the call has come."""
        now = self.clock.monotonic() if self._reason is None else self._ended
        since = now - self._began
        return Outcome(self.name, self.attempts, since, 0.0, None, self._reason, self.error)

    def close(self) -> None:
        """Drop what those that keep an attempt, such as a thread that still runs, do not need."""
        self.operation = self.error = self.result = None

    async def perform(self) -> None:
        """Bring the call to its end: to ``final``, or to ``result``."""
        budget = self.options.budget
        try:
            ending = await self._decide()
            self._ended = self.clock.monotonic()
            late = await self._finish()
            while late and ending.reason in (StopReason.CANCELLED, StopReason.DEADLINE):
                if await self._accepts(late.pop(0)):  # in spite of the cut
                    ending = Ending(StopReason.SUCCEEDED)
            if ending.reason is StopReason.SUCCEEDED and budget is not None:
                self._component = "the budget"
                budget.success()
        except Exception as failure:  # noqa: BLE001 - of a policy, the pool, or of what judges
            self._ended = self.clock.monotonic()
            ending = failed(self._component, failure)
        except GeneratorExit:  # this coroutine was closed: nothing can be awaited
            self._dismiss()
            self.running.clear()
            raise
        finally:
            await self._finish()
        if ending.reason is not StopReason.SUCCEEDED:
            await self._conclude(ending)

    async def _decide(self) -> Ending:
        """Start attempts, and wait for their ends, until one of these, or a limit, decides."""
        schedule = self.schedule
        self._start()
        while self.running or not isinstance(schedule.next, Ending):
            attempt = await self._next_end()
            ending = schedule.cut() if attempt is None else await self._after(attempt)
            if ending is not None:
                return ending
            if schedule.is_due(self.attempts):
                self._start()
        return schedule.cut() or schedule.next

    def _start(self) -> None:
        """Start an attempt, and plan the next one."""
        self.attempts += 1
        self._component = "the start of an attempt"
        HedgedAttempt(self).start(self._pool)
        self._component = "the back-off policy"
        self.schedule.plan(self.attempts, self.options.backoff)

    async def _next_end(self) -> HedgedAttempt | None:
        """Wait until an attempt has ended and return it; None if a limit or a start is due."""
        ended, token, seconds = self.ended, self.schedule.cuts.token, self.schedule.seconds_left()
        sources: tuple[Any, ...] = (ended,) if token is None else (ended, token)
        try:
            if self.awaits:
                source, attempt = await select_async(*sources, timeout=seconds)
            else:
                limit = NO_DEADLINE if seconds is None else seconds
                found = block_on(("hedge_call()", ""), sources, limit)
                source, attempt = found.chosen, found.value
        except TimeoutError:
            source = attempt = None
        if source is ended:
            return attempt  # type: ignore[no-any-return]
        if self.awaits:
            await checkpoint()  # lets tasks end that are done at the same moment,
            await checkpoint()  # or one step later
        return ended.receive_nowait() if len(ended) else None

    async def _after(self, attempt: HedgedAttempt) -> Ending | None:
        """Return how the call ends after an attempt has ended; None: it goes on."""
        ended_by, result = self._forget(attempt)
        try:
            if isinstance(ended_by, Ending):  # it was not made, and no other one is
                self.schedule.next = ended_by
                return ended_by if ended_by.reason is StopReason.FAILED else None
            demand: Any = self.schedule.cut() if attempt.obeyed else None
            if demand is None and ended_by is None:
                if await self._accepts(result):
                    return Ending(StopReason.SUCCEEDED)
                self.error, demand = RejectedResult(result), self.options.backoff
            elif demand is None:
                if not isinstance(ended_by, Exception):
                    raise ended_by
                self.error = told(ended_by)
                demand = await self._demand(ended_by)
            if isinstance(demand, Ending):
                return demand
            self._component = "the back-off policy"
            self.schedule.plan_after(self.attempts, self.error, demand)
            return None
        finally:
            del ended_by  # its traceback refers to this frame: a reference cycle

    async def _accepts(self, result: Any) -> bool:
        """Whether a result is good; it is that of the call then."""
        self.result, self._component, until = result, "until", self.options.until
        return until is None or bool(await answered(until(result), "until", awaits=self.awaits))

    async def _demand(self, error: Exception) -> Any:
        """Return what follows an error: some seconds, a policy, or the end."""
        limits = self.schedule.limits
        if isinstance(error, Cancelled) and limits.is_cancelled(self.clock.monotonic()):
            return limits.cancelled()
        demand = classify(self.options, error)
        if demand is ASK_ON:
            self._component = "on"
            demand = await ask_on(self.options, error, awaits=self.awaits)
        return demand

    # The end

    def _forget(self, attempt: HedgedAttempt) -> tuple[Any, Any]:
        """Handle the end of an attempt: return what has ended it, and its result."""
        self.running.pop(attempt, None)
        self.attempts -= not attempt.is_made
        ended = attempt.ended_by, attempt.result
        attempt.ended_by = attempt.result = attempt.job = None  # they refer to it: a cycle
        return ended

    def _dismiss(self) -> None:
        """Tell all attempts to end; one that has not begun never begins. May be repeated."""
        self.is_over = True
        for attempt in [*self.running]:
            attempt.withdraw()
            if not self.awaits or not attempt.is_begun:
                self._forget(attempt)
        if not self.awaits:
            self.ended.close()
            while len(self.ended):
                self.ended.receive_nowait()  # it refers to this: a reference cycle

    async def _finish(self) -> list[Any]:
        """Dismiss all attempts, and wait until tasks have ended; return what they returned.

        May be repeated.
        """
        results: list[Any] = []
        waits = self.awaits and bool(self.running)
        self._dismiss()
        try:
            if waits:
                await checkpoint()  # those end that had not begun
            # An interrupt may have come between the end of an attempt and _forget().
            while len(self.ended) or not all(each.is_closed for each in self.running):
                ended_by, result = self._forget(await self.ended.receive_async())
                if ended_by is None:
                    results.append(result)
                del ended_by
        except cancelled_error():
            await self._finish()
            raise
        return results

    async def _conclude(self, ending: Ending) -> None:
        """Set ``final``, or the ``result`` that stands for it."""
        options, self._reason = self.options, ending.reason
        self.final = self.error
        if ending.reason is StopReason.NOT_RETRIED and self.attempts == 1:
            return  # as if it were not hedged
        failure, last = ending.error, self.error
        if ending.reason is StopReason.FAILED and failure is not None and last is not None:
            append_cause(failure, last)
        seconds, note = self._ended - self._began, options.note is not False
        self.final = final_error(ending, self.error, self.attempts, seconds, note=note)
        if takes_fallback(options, ending):
            outcome, awaits = self.outcome, self.awaits
            self.result = await fall_back(options.fallback, outcome, self.final, awaits=awaits)
            self.final = None
