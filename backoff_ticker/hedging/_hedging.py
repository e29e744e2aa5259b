"""The decisions of a hedged call: when the next attempt starts, what ends the call, and how.

Nothing here waits: ``_call`` starts the attempts, waits, and tells how they ended.
"""

from __future__ import annotations

from .._errors import CircuitOpen, RejectedResult
from ..retries import SHORTEST_REFUSAL, Awaiting, StopReason
from ._attempt import NotMade

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..cancellation import CancellationToken
    from ..policies import BackOff
    from ..retries import Run


class Hedging:
    """One call: how many attempts run, and when the next one is due.

    Used by one thread or task at a time.

    Args:
        run: The state that it shares with other retries; new.
    """

    __slots__ = ("_due", "_ignores_token", "_no_more", "_pending", "_too_long", "run")

    def __init__(self, run: Run) -> None:
        self.run: Run = run
        self._pending = 0  # attempts that were started and have not been handled
        self._due: float | None = None
        self._too_long: float | None = None  # a wait that `max_elapsed_time` did not allow
        # The first attempt always runs: a token that is cancelled already must not cut it.
        self._ignores_token = run.token is not None and run.token.cancelled
        self._no_more: StopReason | None = StopReason.CANCELLED if self._ignores_token else None

    # Starts

    def launch(self) -> None:
        """Start attempt number ``run.attempts``, and do not wait for it."""
        raise NotImplementedError

    def start(self) -> None:
        """Start an attempt, and set when the next is due."""
        run = self.run
        run.attempts += 1
        self.launch()
        self._pending += 1
        self._due = None
        if self._no_more is None and run.attempts == run.max_attempts:
            self._no_more = StopReason.MAX_ATTEMPTS
        if self._no_more is None:
            self._no_more = run.poll_policy()
        if self._no_more is None:
            self._plan(run.delay)

    def _plan(self, delay: float) -> None:
        """Set when the next attempt is due, if it may begin then."""
        run = self.run
        due = run.clock.monotonic() + delay
        if run.latest_start is not None and due > run.latest_start:
            self._no_more, self._due = StopReason.MAX_ELAPSED_TIME, None
            self._too_long = delay
        else:
            self._due = due

    def _start_another(self) -> None:
        run = self.run
        options = run.options
        if run.latest_start is not None and run.clock.monotonic() > run.latest_start:
            self._no_more, self._due = StopReason.MAX_ELAPSED_TIME, None
            return
        if options.budget is not None and not options.awaits_budget:  # else the attempt asks it
            run.failing_component = "the budget"
            if not options.budget.try_acquire():
                self._no_more, self._due = StopReason.BUDGET, None
                return
        self.start()

    # What to wait for

    @property
    def token(self) -> CancellationToken | None:
        """What cancels the call; None if nothing does."""
        return None if self._ignores_token else self.run.token

    def seconds_left(self) -> float | None:
        """Return the seconds until a start is due or the time is over; None: for ever."""
        run = self.run
        limits = [limit for limit in (self._due, run.deadline) if limit is not None]
        return max(0.0, min(limits) - run.clock.monotonic()) if limits else None

    # What follows

    def after_wait(self) -> StopReason | None:
        """Start the attempt that is due after a wait; return why the call is over, or None."""
        over = self.limit_reached()
        if over is None and self._due is not None and self.run.clock.monotonic() >= self._due:
            self._start_another()
            if not self._pending:
                return self._no_more  # nothing runs that could end
        return over

    def after_end(
        self, error: BaseException | None, result: Any = None
    ) -> StopReason | Awaiting | None:
        """Decide what follows the end of an attempt: it raised ``error``, or returned ``result``.

        Returns:
            Why the call is over; None if it is not; an ``Awaiting``: ``after_answer()`` decides,
            once that was awaited.

        Raises:
            BaseException: The attempt raised it, and it is no ``Exception``; or the policy raised
                it, the pool, or what judges errors and results.
        """
        run = self.run
        self._pending -= 1
        try:
            if error is None:
                accepted = self.accepts(result)
                return (
                    accepted if isinstance(accepted, Awaiting) else self._after_judgement(accepted)
                )
            if not isinstance(error, Exception):
                raise error
            if isinstance(error, NotMade):
                run.attempts -= 1
                self._no_more, self._due = error.reason, None
                if error.__cause__ is not None:
                    run.failing_component = error.component
                    raise error.__cause__
                return None if self._pending else self.limit_reached() or error.reason
            demand = run.note_failure(error)
            return demand if isinstance(demand, Awaiting) else self._after_failure(demand)
        finally:
            del error  # its traceback refers to this frame: a reference cycle

    def after_answer(self, answer: object) -> StopReason | None:
        """Decide what follows an attempt, given what a predicate's awaitable returned."""
        run = self.run
        if run.failing_component != "on":
            return self._after_judgement(run.options.parse_judgement(answer))
        return self._after_failure(run.parse_answer(answer))

    def _after_judgement(self, accepted: bool) -> StopReason | None:  # noqa: FBT001 - an answer
        if accepted:
            return StopReason.SUCCEEDED
        self.run.error = RejectedResult(self.run.result)
        return self._after_failure(None)

    def accepts(self, result: Any) -> bool | Awaiting:
        """Return whether what an attempt returned is good; it is the result of the run then."""
        self.run.result = result
        return self.run.accepts_result()

    def _after_failure(self, demand: StopReason | float | BackOff | None) -> StopReason | None:
        """Decide what follows a failure, of which ``Run.note_failure()`` returned ``demand``."""
        if demand is StopReason.CIRCUIT_OPEN and self._pending:
            self._no_more, self._due = demand, None
            return None  # those that run have begun before, and may still succeed
        if isinstance(demand, StopReason):
            return demand
        run = self.run
        over = self.limit_reached()
        if over is None and self._no_more is None:
            if isinstance(run.error, CircuitOpen) and self._due is not None:
                # As planned, but not before the circuit lets calls through.
                planned = self._due - run.clock.monotonic()
                self._plan(max(planned, run.error.seconds or SHORTEST_REFUSAL))
            elif demand is None:
                self._start_another()
            elif isinstance(demand, float):
                self._plan(demand)
            else:
                self._no_more, self._due = run.poll_policy(demand), None
                if self._no_more is None:
                    self._plan(run.delay)
        if self._pending:
            return None  # these may still succeed
        due = self._due
        if over is None and due is not None and run.deadline is not None and due >= run.deadline:
            run.delay, run.is_waiting = due - run.clock.monotonic(), True
            circuit_is_open = isinstance(run.error, CircuitOpen)
            over = StopReason.CIRCUIT_OPEN if circuit_is_open else StopReason.DEADLINE
        return over or self._no_more

    def limit_reached(self) -> StopReason | None:
        """Return why no attempt may run any more; None if they may."""
        run = self.run
        if self.token is not None and self.token.cancelled:
            return StopReason.CANCELLED
        if run.deadline is not None and run.clock.monotonic() >= run.deadline:
            return StopReason.DEADLINE
        return None

    # The end

    def end(self, reason: StopReason) -> None:
        """Store why the call ended."""
        if reason is StopReason.MAX_ELAPSED_TIME and self._too_long:
            self.run.delay, self.run.is_waiting = self._too_long, True
        self.run.end(reason)
        budget = self.run.options.budget
        if reason is StopReason.SUCCEEDED and budget is not None:
            budget.success()
