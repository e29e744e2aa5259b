"""The decisions of a hedged call: when the next attempt starts, what ends the call, and how.

Nothing here waits: ``_call`` starts the attempts, waits, and tells how they ended.
"""

from __future__ import annotations

from .._errors import CircuitOpen
from ..retries import SHORTEST_REFUSAL, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..cancellation import CancellationToken
    from ..policies import BackOff
    from ..retries import Run


class Hedging:
    """One call: how many attempts run, and when the next one is due."""

    def __init__(self, run: Run, source: str) -> None:
        self.run: Run = run
        self.source: str = source  # what starts attempts, for notes
        self.running: dict[Any, None] = {}  # the attempts whose end was not handled
        self._due: float | None = None
        self._too_long: float | None = None  # a wait that `max_elapsed_time` did not allow
        # The first attempt always runs: a token that is cancelled already must not cut it.
        self._ignores_token = run.token is not None and run.token.cancelled
        self._no_more: StopReason | None = StopReason.CANCELLED if self._ignores_token else None

    def launch(self) -> None:
        """Start attempt number ``run.attempts``, and do not wait for it."""
        raise NotImplementedError

    def start(self) -> None:
        """Start an attempt, and set when the next is due."""
        run = self.run
        run.attempts += 1
        self.launch()
        self._due = None
        if self._no_more is None and run.attempts == run.max_attempts:
            self._no_more = StopReason.MAX_ATTEMPTS
        if self._no_more is None:
            self._no_more = run.poll_policy()
        if self._no_more is None:
            self._plan(run.delay)

    def _start_no_more(self, reason: StopReason) -> None:
        self._no_more, self._due = reason, None

    def _plan(self, delay: float) -> None:
        """Set when the next attempt is due, if it may begin then."""
        run = self.run
        self._due = run.clock.monotonic() + delay
        if run.latest_start is not None and self._due > run.latest_start:
            self._start_no_more(StopReason.MAX_ELAPSED_TIME)
            self._too_long = delay

    def _start_another(self) -> None:
        run, options = self.run, self.run.options
        if run.latest_start is not None and run.clock.monotonic() > run.latest_start:
            self._start_no_more(StopReason.MAX_ELAPSED_TIME)
            return
        if options.budget is not None and not options.awaits_budget:  # else the attempt asks it
            run.failing_component = "the budget"
            if not options.budget.try_acquire():
                self._start_no_more(StopReason.BUDGET)
                return
        self.start()

    @property
    def token(self) -> CancellationToken | None:
        """What cancels the call; None if nothing does."""
        return None if self._ignores_token else self.run.token

    def seconds_left(self) -> float | None:
        """Return the seconds until a start is due or the time is over; None: for ever."""
        run = self.run
        limits = [limit for limit in (self._due, run.deadline) if limit is not None]
        return max(0.0, min(limits) - run.clock.monotonic()) if limits else None

    def after_wait(self) -> StopReason | None:
        """Start the attempt that is due; return why the call is over, None if it is not."""
        over = self.limit_reached()
        if over is None and self._due is not None and self.run.clock.monotonic() >= self._due:
            self._start_another()
            if not self.running:
                return self._no_more  # nothing runs that could end
        return over

    def after_none(self, reason: StopReason, failure: Any) -> StopReason | None:
        """Decide what follows an attempt that was not made: by ``failure``, or no other starts."""
        run = self.run
        run.attempts -= 1
        if failure is not None:
            run.failing_component = "the budget" if reason is StopReason.BUDGET else self.source
            return run.fail(failure)
        self._start_no_more(reason)
        return None if self.running else self.limit_reached() or reason

    def after_failure(self, demand: StopReason | float | BackOff | None) -> StopReason | None:
        """Decide what follows a failure, of which ``Run.note_failure()`` returned ``demand``."""
        if demand is StopReason.CIRCUIT_OPEN and self.running:
            self._start_no_more(demand)
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
        if self.running:
            return None  # these may still succeed
        due = self._due
        if over is None and due is not None and run.deadline is not None and due >= run.deadline:
            run.delay, run.is_waiting = due - run.clock.monotonic(), True
            is_refused = isinstance(run.error, CircuitOpen)
            over = StopReason.CIRCUIT_OPEN if is_refused else StopReason.DEADLINE
        return over or self._no_more

    def limit_reached(self) -> StopReason | None:
        """Return why no attempt may run any more; None if they may."""
        if self.token is not None and self.token.cancelled:
            return StopReason.CANCELLED
        run = self.run
        if run.deadline is not None and run.clock.monotonic() >= run.deadline:
            return StopReason.DEADLINE
        return None

    def end(self, reason: StopReason) -> None:
        """Store why the call ended."""
        if reason is StopReason.MAX_ELAPSED_TIME and self._too_long:
            self.run.delay, self.run.is_waiting = self._too_long, True
        self.run.end(reason)
        budget = self.run.options.budget
        if reason is StopReason.SUCCEEDED and budget is not None:
            budget.success()
