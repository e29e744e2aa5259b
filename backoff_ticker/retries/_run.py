"""One run of a retry: its state, and the decisions that need nothing but that.

Nothing here waits, calls the operation or a hook. ``_steps`` does, with what a run decides.
"""

from __future__ import annotations

from .._error_chain import append_cause, set_link
from .._errors import CircuitOpen, RetryAfter
from ..clock import resolve_clock
from ._attempt import Attempt, hide
from ._failures import ending_by_circuit, ending_by_policy, start_policies, wait_for_circuit
from ._limits import Limits, SkippingClock, active_no_wait
from ._options import Options
from ._outcome import Ending, Outcome, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from ..policies import BackOff

SUCCESS: Final = Ending(StopReason.SUCCEEDED)
NO_KWARGS: Final[Mapping[str, Any]] = {}
NO_LIMITS: Final = Limits(Options("", None, {}), resolve_clock(None), 0.0)
"""Of every run whose options have none."""


class Run:
    """The state of one run, used by one thread or task at a time.

    Its ``ending`` is None until one of three things ends it: a decision of this class, an error of
    a user's function (``fail()``), or an interrupt. Its ``options`` include those of the process.
    """

    # What most runs never change has its value here.
    limits: Limits = NO_LIMITS
    attempts: int = 0  # how many were made, the one that runs included
    attempt: Attempt | None = None  # the one that runs, or the last one
    block: Any = None  # of the loop over its attempts
    awaits: bool = False  # a coroutine drives it, which can await what users' functions return
    managers: Sequence[Callable[..., object]] = ()  # the exits of what surrounds the attempt
    error: Any = None  # of the last attempt that failed
    result: Any = None  # of the last attempt that returned
    was_cut: bool = False  # the last attempt, by its own timeout
    delay: float | None = None  # the seconds of the wait that follows, or is under way
    waited: float = 0.0  # seconds spent between attempts
    polls: Mapping[int, Callable[[], Any]] | None = None  # of copies of policies, by their id
    ticket: Any = None  # what the circuit breaker gave the attempt that is under way
    is_paid: bool = False  # the budget was charged for an attempt that was not made yet
    component: str = ""  # the user's function that is in use, in case it raises
    ending: Ending | None = None  # how it ended
    ended: float = 0.0  # when
    final: BaseException | None = None  # the error to raise at the end
    is_shown: bool = True  # its attempt, by current_attempt()

    def __init__(
        self,
        options: Options,
        name: str,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] = NO_KWARGS,
    ) -> None:
        self.options = options
        self.name: str = name
        self.args = args
        self.kwargs = kwargs
        self.clock: Any = options.clock or resolve_clock(None)
        if active_no_wait:
            self.clock = SkippingClock(self.clock)
        self.began: float = self.clock.monotonic()
        if options.has_limits or active_no_wait:
            self.limits = Limits(options, self.clock, self.began)

    # Attempts

    def begin(self) -> Attempt:
        """Begin the next attempt, which is not shown yet, and return it."""
        self.attempts += 1
        self.delay = None
        self.attempt = attempt = Attempt(self, self.attempts, self.waited)
        return attempt

    def refuse(self) -> None:
        """End the run: a cancel or a limit keeps the attempt that has begun from being made."""
        self.attempts -= 1
        self.end(self.limits.reached() or self.limits.ending_by_token())

    # What follows a failure

    def plan(self, demand: float | BackOff) -> Ending | None:
        """Set the ``delay`` before the next attempt, as ``demand`` says; return why there is none.

        The order of the checks is part of the contract of ``retry``.
        """
        limits = self.limits
        is_refused = isinstance(self.error, CircuitOpen)
        ending = ending_by_circuit(self.error) if is_refused else None
        if ending is None and limits is not NO_LIMITS:
            ending = limits.reached(self.attempts)
        if ending is not None:
            return ending
        # Asked even if the error says how long to wait: the delay that this replaces is used up.
        policy: Any = self.options.backoff if isinstance(demand, float) else demand
        self.component = "the back-off policy"
        if self.polls is None:  # at the first failure: limits of elapsed time count from here
            self.polls = self.options.fixed_polls or start_policies(self.options, self.clock)
        polled = self.polls[id(policy)]()
        if not isinstance(polled, float):
            try:
                return ending_by_policy(policy, polled, limits)
            finally:
                del polled  # the traceback of its error refers to this frame: a reference cycle
        self.delay = delay = demand if isinstance(demand, float) else polled
        if is_refused:
            planned = wait_for_circuit(self.error, delay, limits)
            if isinstance(planned, Ending):
                return planned
            self.delay = planned
            return None
        return None if limits is NO_LIMITS else limits.reached_by(delay)

    # The circuit breaker

    def ask_circuit(self) -> CircuitOpen | None:
        """Ask the circuit breaker whether an attempt may be made; return the error if not."""
        breaker = self.options.breaker
        if breaker is None:
            return None
        self.component = "the circuit breaker"
        try:
            self.ticket = breaker.allow()
        except CircuitOpen as refused:
            try:
                self.refund()
            except Exception as failure:  # raised at the end
                self.fail(failure, "the budget")
                return None
            last = self.error  # why the circuit opened, perhaps; of several refusals, once
            cause = last.__cause__ if isinstance(last, CircuitOpen) else last
            set_link(refused, "__cause__", cause)
            return refused
        except Exception as failure:  # raised at the end
            self.attempts -= 1  # it is not made
            self.fail(failure)
        return None

    def tell_circuit(self, error: BaseException | None) -> None:
        """Tell the circuit breaker how an attempt ended; one that was not made, or cut, is over."""
        if self.ticket is None:
            return
        self.component = "the circuit breaker"
        try:
            # Cut by its own timeout it is a failure to every breaker, as RetryAfter is.
            self.options.breaker.record(self.ticket, RetryAfter(0) if self.was_cut else error)
        except Exception as failure:  # raised at the end
            self.fail(failure)
        self.ticket = None  # after that: an interrupt before leaves it to refund()

    # The end

    def end(self, ending: Ending) -> None:
        """Store how the run ended, and when."""
        if self.is_paid or self.ticket is not None:
            try:
                self.refund()
            except Exception as failure:  # raised at the end
                self.fail(failure, "the budget")
                return
        self.ended = self.clock.monotonic()
        self.ending = ending  # last: another thread may ask for the outcome

    def succeed(self) -> bool:
        """End the run by the result of its attempt; False: it has ended otherwise."""
        if self.ending is not None:
            return False
        self.ended = self.clock.monotonic()
        self.ending = SUCCESS
        return True

    def fail(self, failure: Exception, component: str | None = None) -> None:
        """End the run by an error of a user's function, which is raised at the end.

        It is that of ``component``; None: of the one that is in use.
        """
        earlier, component = self.ending, component or self.component
        if earlier and earlier.reason is StopReason.FAILED and earlier.error is not None:
            append_cause(failure, earlier.error)
        self.end(Ending(StopReason.FAILED, f"{component} failed", failure))

    def refund(self) -> None:
        """Give back what an attempt took that was not made, or not told: budget and ticket."""
        is_paid, ticket = self.is_paid, self.ticket
        self.is_paid, self.ticket = False, None
        if is_paid:
            self.options.budget.release()
        if ticket is not None:
            self.options.breaker.release(ticket)

    def close(self) -> None:
        """Show the run no more, and drop what kept attempts would hold. May be repeated."""
        hide(self)
        if self.attempt is not None:
            self.attempt.end()
            self.attempt = None  # it refers to the run: a reference cycle
        if self.is_paid or self.ticket is not None:
            self.refund()
        self.result = None
        self.args, self.kwargs = (), NO_KWARGS

    def outcome(self) -> Outcome:
        """Return how far the run has come."""
        ending, reason, delay = self.ending, None, self.delay
        now = self.clock.monotonic() if ending is None else self.ended
        if ending is not None:
            reason, delay = ending.reason, None
        times = now - self.began, self.waited, delay
        outcome = Outcome(self.name, self.attempts, *times, reason, self.error)
        if self.args or self.kwargs:
            # A copy: what a hook does to it does not reach the operation.
            outcome.__dict__.update(args=self.args, kwargs=dict(self.kwargs))
        return outcome
