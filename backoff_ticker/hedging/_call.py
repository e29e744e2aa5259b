"""One hedged call: its attempts start, end, and one of these ends decides."""

from __future__ import annotations

from .._errors import CircuitOpen, RejectedResult
from .._operation import answered, name_of
from ..channels import Channel, block_on, select_async
from ..clock import later, resolve_clock
from ..retries import (
    Ending,
    Limits,
    Options,
    Outcome,
    StopReason,
    classify,
    conclude,
    ending_by_circuit,
    ending_by_policy,
    raise_final,
    reconsidered,
    start_policies,
    unmarked,
    wait_for_circuit,
)
from ..waiting import NO_DEADLINE, cancelled_error, checkpoint, shielded
from ._attempt import HedgedAttempt, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_SUCCESS: Final = Ending(StopReason.SUCCEEDED)
_CUTS: Final = (StopReason.CANCELLED, StopReason.DEADLINE)
_TOO_LATE: Final = (StopReason.DEADLINE, StopReason.MAX_ELAPSED_TIME)


class HedgedCall:
    """One call; with ``tasks`` it awaits its attempts, which can be cut, else they are threads.

    Its coroutine functions suspend only if it awaits: a thread calls them with ``run_at_once()``.
    """

    attempts = 0  # how many were started, without those that were not made
    error: Any = None  # of the last attempt that failed
    result: Any = None  # of the last attempt that returned
    final: BaseException | None = None  # what to raise at the end; None: there is a result
    ending: Ending | None = None  # how it ended
    ended = 0.0  # when
    component = ""  # what is in use, in case it raises
    _next: float | Ending  # when the next attempt starts, or why none does

    def __init__(self, options: Options, operation: Any, tasks: Any, pool: Any = None) -> None:
        self.options = options
        self.operation = operation  # None as soon as no attempt begins any more
        self.awaits = tasks is not None
        self.tasks, self._pool = tasks, pool
        self.name: str = options.name or name_of(operation)
        self.clock = options.clock or resolve_clock(None)
        self.began = self.clock.monotonic()
        self.limits = Limits(options, self.clock, self.began)  # what forbids a start
        self._cuts = Limits(options, self.clock, self.began)  # what ends attempts that run
        self._cuts.latest_start = None
        if options.token is not None and options.token.cancelled:  # before the call
            self._cuts.token = None
        self._polls = start_policies(options, self.clock)
        # Attempts whose end was not handled yet, each with its task, or its future in a pool.
        self.running: dict[HedgedAttempt, Any] = {}
        self.ends: Any = Channel(float("inf"), clock=self.clock)  # attempts, with how they ended

    def outcome(self) -> Outcome:
        """Return how far the call has come."""
        since = (self.clock.monotonic() if self.ending is None else self.ended) - self.began
        reason = None if self.ending is None else self.ending.reason
        return Outcome(self.name, self.attempts, since, 0.0, None, reason, self.error)

    async def perform(self) -> Any:
        """Make the call; return its result, or raise the error that it ends with."""
        try:
            self.ending = await self._end()
            if self.ending is not _SUCCESS:
                await conclude(self)
            result = self.result
        finally:  # a thread that still runs keeps the rest
            self.operation = self.ends = self.error = self.result = None
        raise_final(self)
        return result

    async def _end(self) -> Ending:
        """Bring all attempts to their ends; return what decided."""
        try:
            ending = await self._decide()
            for result in await self._finish():
                if ending.reason in _CUTS and await self._accepts(result):  # in spite of the cut
                    ending = _SUCCESS
            if ending is _SUCCESS and self.options.budget is not None:
                self.component = "the budget"
                self.options.budget.success()
        except Exception as failure:  # of a policy, the pool, or of what judges
            return failed(self.component, failure)
        except GeneratorExit:  # this coroutine was closed: nothing can be awaited
            self.awaits = False
            raise
        else:
            return ending
        finally:
            await self._finish()

    async def _finish(self) -> list[Any]:
        """Withdraw all attempts, await those in tasks, and return late results; may be repeated."""
        late: list[Any] = []
        if self.operation is not None:
            self.operation, self.ended = None, self.clock.monotonic()
        for attempt, job in [*self.running.items()]:
            attempt.token.cancel("the hedged call has ended")
            try:
                if job is not None:
                    job.cancel()
            except RuntimeError:  # its loop was closed: nobody goes on with it
                pass
        try:
            if self.running and self.awaits:
                await checkpoint()  # those end that had not begun
            while self.awaits and any(attempt.is_shown for attempt in self.running):
                late.append(await self.ends.receive_async())
        except cancelled_error():
            with shielded():
                await self._finish()
            raise
        while len(self.ends):
            late.append(self.ends.receive_nowait())
        self.attempts -= sum(not attempt.is_made for attempt in self.running)
        self.running.clear()
        return [result for one, ended_by, result in late if ended_by is None and not one.obeyed]

    async def _decide(self) -> Ending:
        """Start attempts, and wait for their ends, until one of these, or a limit, decides."""
        due = self._next = self._start()
        while isinstance(due, float) or (self.running and due.reason is not StopReason.FAILED):
            end = await self._next_end()
            ending = self._cuts.reached() if end is None else await self._after(*end)
            if ending is not None:
                return ending
            now, due = self.clock.monotonic(), self._next
            if isinstance(due, float) and due <= now:  # or later: the process may have stood still
                due = self._next = self.limits.reached(self.attempts) or self._start()
        return self._cuts.reached() or due

    async def _next_end(self) -> Any:
        """Wait until an attempt has ended; return it, and how. None: a limit or a start is due."""
        ends, token = self.ends, self._cuts.token
        sources: tuple[Any, ...] = (ends,) if token is None else (ends, token)
        times = [when for when in (self._next, self._cuts.deadline) if isinstance(when, float)]
        seconds = max(0.0, min(times) - self.clock.monotonic()) if times else None
        try:
            if self.awaits:
                source, end = await select_async(*sources, timeout=seconds)
            else:
                limit = NO_DEADLINE if seconds is None else seconds
                source, end = block_on(("hedge_call()", ""), sources, limit)
            if source is ends:
                return end
        except TimeoutError:
            pass
        if self.awaits:
            await checkpoint()  # lets tasks end that are done at the same moment,
            await checkpoint()  # or one step later
        return ends.receive_nowait() if len(ends) else None

    async def _after(self, attempt: HedgedAttempt, ended_by: Any, result: Any) -> Ending | None:
        """Return how the call ends after an attempt has ended; None: it goes on."""
        self.running.pop(attempt, None)
        self.attempts -= not attempt.is_made
        if isinstance(ended_by, Ending):  # it was not made, and no other one is
            self._next = ended_by
            return None
        cut = self._cuts.reached() if attempt.obeyed else None
        if cut is not None:
            return cut
        demand: Any = self.options.backoff
        if ended_by is None:
            if await self._accepts(result):
                return _SUCCESS
            self.error = RejectedResult(result)
        elif isinstance(ended_by, Exception):
            self.error = unmarked(ended_by)
            demand = await reconsidered(self, ended_by, classify(self.options, ended_by))
        else:
            self.error, demand = ended_by, Ending(StopReason.INTERRUPTED)
        if isinstance(demand, Ending):
            return demand
        if isinstance(self._next, float) or self._next.reason in _TOO_LATE:
            self._next = self._plan_after_failure(demand)
        return None

    async def _accepts(self, result: Any) -> bool:
        """Whether a result is good; it is that of the call then."""
        self.result, self.component, until = result, "until", self.options.until
        return until is None or bool(await answered(until(result), "until", awaits=self.awaits))

    def _start(self) -> float | Ending:
        """Start an attempt; return when the next one starts, or why none does."""
        self.attempts += 1
        self.component = "the start of an attempt"
        HedgedAttempt(self).start(self._pool)
        return self._plan(self.options.backoff)

    def _plan(self, demand: Any) -> float | Ending:
        """Return when the next attempt starts, in seconds or as a policy says; or why none does."""
        ending = self.limits.reached(self.attempts)
        if ending is not None:
            return ending
        delay = demand if isinstance(demand, float) else self._polls[id(demand)]()
        if not isinstance(delay, float):
            return ending_by_policy(demand, delay, self.limits)
        return self.limits.reached_by(delay) or later(self.clock.monotonic(), delay)

    def _plan_after_failure(self, demand: Any) -> float | Ending:
        """Return the same: at once, if the error is for the policy of the call."""
        error = self.error
        if isinstance(error, CircuitOpen):
            # As planned, but not before the circuit lets calls through.
            planned = self._next if isinstance(self._next, float) else 0.0
            delay = max(0.0, planned - self.clock.monotonic())
            demand = ending_by_circuit(error) or wait_for_circuit(error, delay, self.limits)
        elif demand is self.options.backoff:
            demand = 0.0
        return demand if isinstance(demand, Ending) else self._plan(demand)
