"""One hedged call: its attempts start, end, and one of these ends decides."""

from __future__ import annotations

from .._error_chain import append_cause
from .._errors import Cancelled, CircuitOpen, RejectedResult
from .._operation import answered, name_of
from .._validation import safe_repr
from ..channels import Channel, block_on, select_async
from ..clock import later, resolve_clock
from ..policies import PolicyRun, start_policy
from ..retries import (
    ASK_ON,
    SHORTEST_REFUSAL,
    Ending,
    Limits,
    Outcome,
    StopReason,
    ask_on,
    classify,
    fall_back,
    final_error,
    stays_open,
    takes_fallback,
    told,
)
from ..waiting import NO_DEADLINE, cancelled_error, checkpoint
from ._attempt import HedgedAttempt, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ..clock import Clock
    from ..retries import Options

_SUCCESS: Final = Ending(StopReason.SUCCEEDED)
_CUTS: Final = (StopReason.CANCELLED, StopReason.DEADLINE)
_TOO_LATE: Final = (StopReason.DEADLINE, StopReason.MAX_ELAPSED_TIME)


class HedgedCall:
    """One call; if it ``awaits``, its attempts are tasks, which can be cut, else threads.

    Its coroutine functions suspend only if it awaits: a thread calls them with ``now()``.
    """

    attempts = 0  # how many were started, without those that were not made
    error: Any = None  # of the last attempt that failed
    result: Any = None  # of the last attempt that returned
    final: BaseException | None = None  # what to raise at the end; None: there is a result
    _next: float | Ending  # when the next attempt starts, or why none does
    _reason: StopReason | None = None  # why it ended
    _ended = 0.0  # when
    _component = ""  # what is in use, in case it raises

    def __init__(self, options: Options, operation: Any, pool: Any = None, *, awaits: bool) -> None:
        self.options = options
        self.operation = operation  # None as soon as no attempt begins any more
        self.awaits = awaits
        self.name: str = options.name or name_of(operation)
        self.clock: Clock = options.clock or resolve_clock(None)
        self._pool = pool
        self._began = self.clock.monotonic()
        self.limits = Limits(options, self.clock, self._began)  # what forbids a start
        self._cuts = Limits(options, self.clock, self._began)  # what ends attempts that run
        self._cuts.latest_start = None
        if options.token is not None and options.token.cancelled:  # before the call
            self._cuts.token = None
        self._polls = {
            id(each): PolicyRun(start_policy("backoff", each, self.clock), self.clock, ()).ask
            for each in options.policies
        }
        self.running: dict[HedgedAttempt, None] = {}  # attempts whose end was not handled yet
        self.ended: Any = Channel(float("inf"), clock=self.clock)  # attempts, with how they ended

    def outcome(self) -> Outcome:
        """Return how far the call has come."""
        now = self.clock.monotonic() if self._reason is None else self._ended
        since = now - self._began
        return Outcome(self.name, self.attempts, since, 0.0, None, self._reason, self.error)

    async def perform(self) -> Any:
        """Make the call, and return its result, unless there is a ``final`` error to raise."""
        try:
            ending = await self._end()
            if ending is not _SUCCESS:
                await self._conclude(ending)
            return self.result
        finally:  # a thread that still runs keeps the rest
            self.operation = self.ended = self.error = self.result = None

    async def _end(self) -> Ending:
        """Bring all attempts to their ends; return what decided."""
        try:
            ending = await self._decide()
            late = await self._finish()
            while late and ending.reason in _CUTS:
                if await self._accepts(late.pop(0)):  # in spite of the cut
                    ending = _SUCCESS
            if ending is _SUCCESS and self.options.budget is not None:
                self._component = "the budget"
                self.options.budget.success()
        except Exception as failure:  # noqa: BLE001 - of a policy, the pool, or of what judges
            return failed(self._component, failure)
        except GeneratorExit:  # this coroutine was closed: nothing can be awaited
            self.awaits = False
            raise
        else:
            return ending
        finally:
            await self._finish()

    async def _decide(self) -> Ending:
        """Start attempts, and wait for their ends, until one of these, or a limit, decides."""
        due = self._next = self._start()
        while isinstance(due, float) or (self.running and due.reason is not StopReason.FAILED):
            attempt = await self._next_end()
            ending = self._cut() if attempt is None else await self._after(attempt)
            if ending is not None:
                return ending
            now, due = self.clock.monotonic(), self._next
            if isinstance(due, float) and due <= now:  # or later: the process may have stood still
                due = self._next = self.limits.reached(self.attempts) or self._start()
        return self._cut() or due

    async def _next_end(self) -> HedgedAttempt | None:
        """Wait until an attempt has ended and return it; None if a limit or a start is due."""
        ended, token = self.ended, self._cuts.token
        sources: tuple[Any, ...] = (ended,) if token is None else (ended, token)
        times = [each for each in (self._next, self._cuts.deadline) if isinstance(each, float)]
        seconds = max(0.0, min(times) - self.clock.monotonic()) if times else None
        try:
            if self.awaits:
                source, attempt = await select_async(*sources, timeout=seconds)
            else:
                limit = NO_DEADLINE if seconds is None else seconds
                found = block_on(("hedge_call()", ""), sources, limit)
                source, attempt = found.chosen, found.value
            if source is ended:
                return attempt  # type: ignore[no-any-return]
        except TimeoutError:
            pass
        if self.awaits:
            await checkpoint()  # lets tasks end that are done at the same moment,
            await checkpoint()  # or one step later
        return ended.receive_nowait() if len(ended) else None

    async def _after(self, attempt: HedgedAttempt) -> Ending | None:
        """Return how the call ends after an attempt has ended; None: it goes on."""
        ended_by, result = self._forget(attempt)
        if isinstance(ended_by, Ending):  # it was not made, and no other one is
            self._next = ended_by
            return None
        demand: Any = self._cut() if attempt.obeyed else None
        if demand is None and ended_by is None:
            if await self._accepts(result):
                return _SUCCESS
            self.error, demand = RejectedResult(result), self.options.backoff
        elif demand is None and isinstance(ended_by, Exception):
            self.error = told(ended_by)
            demand = await self._demand(ended_by)
        elif demand is None:
            self.error, demand = ended_by, Ending(StopReason.INTERRUPTED)
        if isinstance(demand, Ending):
            return demand
        if isinstance(self._next, float) or self._next.reason in _TOO_LATE:
            self._next = self._plan_after_failure(demand)
        return None

    async def _accepts(self, result: Any) -> bool:
        """Whether a result is good; it is that of the call then."""
        self.result, self._component, until = result, "until", self.options.until
        return until is None or bool(await answered(until(result), "until", awaits=self.awaits))

    async def _demand(self, error: Exception) -> Any:
        """Return what follows an error: some seconds, a policy, or the end."""
        if isinstance(error, Cancelled) and self.limits.is_cancelled():
            return self.limits.ending_by_token()
        demand = classify(self.options, error)
        if demand is ASK_ON:
            self._component = "on"
            demand = await ask_on(self.options, error, awaits=self.awaits)
        return demand

    # The schedule

    def _cut(self) -> Ending | None:
        """Return why no attempt may run any more; None if they may."""
        return self._cuts.reached()

    def _start(self) -> float | Ending:
        """Start an attempt; return when the next one starts, or why none does."""
        self.attempts += 1
        self._component = "the start of an attempt"
        HedgedAttempt(self).start(self._pool)
        return self._plan(self.options.backoff)

    def _plan(self, demand: Any) -> float | Ending:
        """Return when the next attempt starts, in seconds or as a policy says; or why none does."""
        now = self.clock.monotonic()
        late = self.limits.reached(self.attempts)
        if late is not None:
            return late
        delay = demand if isinstance(demand, float) else self._polls[id(demand)]()
        if isinstance(delay, float):
            return self.limits.reached_by(delay) or later(now, delay)
        if delay.error is not None:
            return failed("the back-off policy", delay.error)
        return Ending(StopReason.EXHAUSTED, f"the policy stopped: {safe_repr(demand)}")

    def _plan_after_failure(self, demand: Any) -> float | Ending:
        """Return the same: at once, if the error is for the policy of the call."""
        error, planned = self.error, self._next
        if not isinstance(error, CircuitOpen):
            return self._plan(0.0 if demand is self.options.backoff else demand)
        if stays_open(error):
            return Ending(StopReason.CIRCUIT_OPEN, "the circuit is open until a reset")
        # As planned, but not before the circuit lets calls through.
        delay = planned - self.clock.monotonic() if isinstance(planned, float) else 0.0
        planned = self._plan(max(delay, error.seconds or SHORTEST_REFUSAL))
        if isinstance(planned, Ending) and planned.reason is StopReason.DEADLINE:
            why = f"the circuit stays open longer than timeout={self.options.timeout!r} allows"
            return Ending(StopReason.CIRCUIT_OPEN, why)
        return planned

    # The end

    def _forget(self, attempt: HedgedAttempt) -> tuple[Any, Any]:
        """Handle the end of an attempt: return what has ended it, and its result."""
        self.running.pop(attempt, None)
        self.attempts -= not attempt.is_made
        ended = attempt.ended_by, attempt.result
        attempt.ended_by = attempt.result = attempt.job = None  # they refer to it: a cycle
        return ended

    async def _finish(self) -> list[Any]:
        """Tell all attempts to end, and wait until tasks have; return what they returned.

        May be repeated.
        """
        if self.operation is not None:
            self.operation, self._ended = None, self.clock.monotonic()
        if not self.awaits:
            self.ended = None  # first: who does not see that is forgotten now
        for attempt in [*self.running]:
            attempt.withdraw()
        try:
            if self.running and self.awaits:
                await checkpoint()  # those end that had not begun
            late = self._forget_ended()
            while self.running:
                await self.ended.receive_async()
                late += self._forget_ended()
        except cancelled_error():
            await self._finish()
            raise
        return late

    def _forget_ended(self) -> list[Any]:
        """Forget attempts that have ended, or are not awaited; return what they returned.

        An interrupt may have lost the news of an end, so it does not matter here.
        """
        late = []
        for attempt in [*self.running]:
            if not (self.awaits and attempt.is_begun and attempt.is_shown):
                ended_by, result = self._forget(attempt)
                if not (attempt.is_shown or ended_by or attempt.obeyed):
                    late.append(result)
        return late

    async def _conclude(self, ending: Ending) -> None:
        """Set ``final``, or the ``result`` that stands for it."""
        options, self._reason, self.final = self.options, ending.reason, self.error
        is_first = ending.reason is StopReason.NOT_RETRIED and self.attempts == 1
        if is_first or ending.reason is StopReason.INTERRUPTED:
            return  # as if it were not hedged
        failure = ending.error if ending.reason is StopReason.FAILED else None
        if failure is not None and self.error is not None:
            append_cause(failure, self.error)
        seconds, note = self._ended - self._began, options.note is not False
        self.final = final_error(ending, self.error, self.attempts, seconds, note=note)
        ending.error = failure = None  # the traceback may refer to frames that hold these
        if takes_fallback(options, ending):
            fallback, awaits = options.fallback, self.awaits
            self.result = await fall_back(fallback, self.outcome, self.final, awaits=awaits)
            self.final = None
