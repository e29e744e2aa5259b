"""When the next attempt of a hedged call starts, and what cuts those that run; it never waits."""

from __future__ import annotations

from .._errors import CircuitOpen
from .._validation import safe_repr
from ..clock import later
from ..policies import PolicyRun, start_policy
from ..retries import SHORTEST_REFUSAL, Ending, Limits, StopReason, stays_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ..clock import Clock
    from ..policies import BackOff
    from ..retries import Options

_TOO_LATE: Final = (StopReason.DEADLINE, StopReason.MAX_ELAPSED_TIME)


class Schedule:
    """The starts of one call.

    Attributes:
        next: When the next attempt starts, or why none does.
        limits: Those of the options.
        cuts: What ends attempts that run: not ``max_elapsed_time``, nor a token that was cancelled
            before the call.
    """

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        began = clock.monotonic()
        self.next: float | Ending = began
        self.limits = Limits(options, clock, began)
        self.cuts = Limits(options, clock, began)
        self.cuts.latest_start = None
        token = options.token
        if token is not None and token.cancelled:
            self.cuts.token = None
        self._policies = {
            id(policy): PolicyRun(start_policy("backoff", policy, clock), clock, ())
            for policy in options.policies
        }

    def cut(self) -> Ending | None:
        """Return why no attempt may run any more; None if they may."""
        return self.cuts.reached(self._clock.monotonic())

    def seconds_left(self) -> float | None:
        """Return how long to wait for the end of an attempt: until a start, or the timeout."""
        times = [each for each in (self.next, self.cuts.deadline) if isinstance(each, float)]
        return max(0.0, min(times) - self._clock.monotonic()) if times else None

    def is_due(self, attempts: int) -> bool:
        """Whether the next attempt starts now, after so many."""
        now = self._clock.monotonic()
        if isinstance(self.next, Ending) or self.next > now:
            return False
        late = self.limits.reached(now, attempts)  # the process may have stood still
        self.next = late or self.next
        return late is None

    def plan(self, attempts: int, demand: Any) -> None:
        """Plan the next attempt after some seconds, or as a policy says, if the limits allow it."""
        now = self._clock.monotonic()
        late = self.limits.reached(now, attempts)
        delay = late or (demand if isinstance(demand, float) else self._poll(demand))
        if isinstance(delay, float):
            delay = self.limits.reached_by(now, delay) or later(now, delay)
        self.next = delay

    def plan_after(self, attempts: int, error: BaseException, demand: Any) -> None:
        """Plan the next attempt after a failure: at once, if it is for the policy of the call."""
        due, now = self.next, self._clock.monotonic()
        if isinstance(due, Ending) and due.reason not in _TOO_LATE:
            return
        if not isinstance(error, CircuitOpen):
            self.plan(attempts, 0.0 if demand is self._options.backoff else demand)
        elif stays_open(error):
            self.next = Ending(StopReason.CIRCUIT_OPEN, "the circuit is open until a reset")
        else:  # as planned, but not before the circuit lets calls through
            planned = due - now if isinstance(due, float) else 0.0
            self.plan(attempts, max(planned, error.seconds or SHORTEST_REFUSAL))
            if isinstance(self.next, Ending) and self.next.reason is StopReason.DEADLINE:
                limit = self._options.timeout
                why = f"the circuit stays open longer than timeout={limit!r} allows"
                self.next = Ending(StopReason.CIRCUIT_OPEN, why)

    def _poll(self, policy: BackOff) -> float | Ending:
        """Return the next delay of the call's copy of a policy, or why there is none."""
        answer: Any = self._policies[id(policy)].ask()
        if isinstance(answer, float):
            return answer
        if answer.error is not None:
            try:
                raise answer.error
            finally:
                del answer  # its traceback refers to this frame: a reference cycle
        return Ending(StopReason.EXHAUSTED, f"the policy stopped: {safe_repr(policy)}")
