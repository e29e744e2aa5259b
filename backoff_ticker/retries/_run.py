"""One run of a retry: its state, its limits and its policy.

Nothing here waits or calls the operation.
"""

from __future__ import annotations

from .._error_chain import append_cause, set_link
from .._errors import BackoffTickerError, CircuitOpen, DeadlineExceeded
from .._operation import name_of
from .._validation import LARGEST
from ..clock import later, resolve_clock
from ..policies import End, PolicyRun, start_policy
from ..waiting import complete
from ._outcome import Outcome, StopReason
from ._settings import active_no_wait, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from .._sentinels import Stop
    from ..cancellation import CancellationToken
    from ..clock import Clock, Parker, TimerHandle
    from ..policies import BackOff
    from ._options import Demand, Options

    Args = tuple[Any, ...]
    Kwargs = Mapping[str, Any]
    Operation = Callable[..., Any]
    Poll = Callable[[], float | Stop | End]

NO_KWARGS: Kwargs = {}


SHORTEST_REFUSAL = 0.01
"""Seconds until the next attempt if a circuit is open and nobody knows for how long: while probes
are on their way, a policy without delays would spin."""

SUCCEEDED: Final = StopReason.SUCCEEDED  # looking up an enum member is slow in CPython

new_tuple: Final = tuple.__new__
"""Makes an ``Outcome``, in a third of the time that its constructor takes."""

_MOST_POLICIES = 100
"""How many of the policies that ``on`` returned keep their state in a run."""


class NoResult(BackoffTickerError):
    """Stands for the error of an attempt that was cut or not made; never raised."""


TOKEN: Final = "token of the attempts"  # noqa: S105 - no secret
LATE_TOKEN: Final = "token made after the end"  # noqa: S105
"""Keys in the ``__dict__`` of a run, whose ``setdefault()`` is atomic. ``TOKEN`` is None where the
run has ended before anybody asked for it."""

REFUSED: Final = NoResult("not made: the token was cancelled right before")
CUT: Final = NoResult("cut by the token or a time limit")


class SkippingClock:
    """The clock of one run in ``no_wait()``: the time of the waits that it skips counts as passed.

    So time limits end a run after as many attempts as if it really waited.
    """

    __slots__ = ("clock", "skipped")

    def __init__(self, clock: Clock) -> None:
        self.clock: Clock = clock
        self.skipped: float = 0.0  # seconds by which it is ahead of that clock

    def monotonic(self) -> float:
        return later(self.clock.monotonic(), self.skipped)

    def time(self) -> float:
        return self.clock.time() + self.skipped

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> TimerHandle:
        return self.clock.call_at(later(when, -self.skipped), callback, loop=loop)

    def parker(self, what: str = "") -> Parker:
        return self.clock.parker(what)


class Run:
    """The state of one run; used by one thread or task at a time.

    Args:
        options: The options.
        name: The name of the operation; None: looked up here.
        operation: What to call; None: a loop has a block instead, or the call is hedged.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        attempts: The number of attempts already made; 0: the run begins now.
        began: When the first attempt began, if attempts were made and that was measured.
    """

    # Slots are what most runs look at. The rest is kept in the class until it changes, so that a
    # run begins quickly; it is looked up slowly.
    __slots__ = (
        "__dict__",
        *("_clock", "_monotonic", "_poll", "always_waits", "args", "attempts", "awaits", "began"),
        *("deadline", "delay", "ended", "error", "failing_component", "is_loop", "is_paid"),
        *("is_tracked", "is_waiting", "kwargs", "latest_start", "max_attempts", "name", "now"),
        *("operation", "options", "reason", "result", "skipping", "ticket", "token", "waited"),
    )

    token: CancellationToken | None  # cancels it: the given one with that of the policy
    deadline: float | None  # when `timeout` is reached, in the clock's monotonic seconds
    latest_start: float | None  # when the last attempt may begin, by `max_elapsed_time`
    always_waits: bool  # waits are skipped, or timed: a delay of 0 is one as well
    awaits: bool  # a coroutine drives it, which can await what predicates return
    is_loop: bool  # it has a block instead of an operation
    is_tracked: bool  # its attempts are shown to current_attempt()
    error: Any  # of the last attempt that failed
    result: Any  # of the last attempt that returned
    ticket: Any  # what the circuit breaker gave the attempt that is under way
    is_paid: bool  # the budget was charged for an attempt that was not made yet
    delay: float  # the wait that follows the last failure, in seconds
    waited: float  # seconds spent between attempts
    is_waiting: bool  # the wait of `delay` is under way, or would be the next step
    now: float  # when limit_reached() has last read the clock
    failing_component: str  # the name of the component in use, in case it raises
    reason: StopReason | None  # why it ended
    ended: float  # when, if it is known when it began
    skipping: SkippingClock | None  # skips the waits, inside no_wait()
    _monotonic: Callable[[], float]
    _poll: Poll | None

    failed_component: str = ""  # the one that raised `failure`
    failure: Exception | None = None  # of a component other than the operation
    final: BaseException | None = None  # the error to raise at the end
    policy: BackOff | None = None  # that has ended the run
    needs_await: bool = False  # the next attempt of a loop has an asynchronous manager around it
    refusal: Exception | None = None  # why a loop must not make its next attempt
    cut: BaseException | None = None  # the CancelledError that cut the last attempt: shows where
    cut_for: StopReason | None = None  # why the run then ends; None: it was `attempt_timeout`
    cut_at: float | None = None  # when `attempt_timeout` cuts the attempt that runs
    current: Any = None  # the CurrentAttempt that is shown
    outer: Any = None  # what was shown before
    _chosen: dict[int, tuple[BackOff, Poll]] | None = None

    def __init__(  # noqa: PLR0913, PLR0917 - all that differs from run to run
        self,
        options: Options,
        name: str | None,
        operation: Operation | None = None,
        args: Args = (),
        kwargs: Kwargs = NO_KWARGS,
        attempts: int = 0,
        began: float | None = None,
    ) -> None:
        self.options: Options = options
        self.name: str = name_of(operation) if name is None else name
        self.operation: Operation | None = operation
        self.args: Args = args
        self.kwargs: Kwargs = kwargs
        self.attempts: int = attempts
        self.began: float | None = began
        self.max_attempts: int | None = options.max_attempts
        self.delay = self.waited = self.now = 0.0
        self.failing_component = ""
        self.error = self.result = self.ticket = self.reason = self._poll = self.skipping = None
        self.token = self.deadline = self.latest_start = None
        self.awaits = self.is_loop = self.is_paid = self.is_waiting = False
        self.always_waits = options.timer is not None
        self.is_tracked = settings.tracks_attempts and not options.is_off
        self._clock: Clock | None = options.clock
        if options.token is not None or active_no_wait:
            self._use_token_or_no_wait()
        if began is not None or not attempts:
            self._monotonic = (self._clock or self.clock).monotonic
            if began is None:
                self.began = began = self._monotonic()
            if options.timeout is not None:
                self.deadline = min(later(began, options.timeout), LARGEST)
            if options.max_elapsed_time is not None:
                self.latest_start = min(later(began, options.max_elapsed_time), LARGEST)

    def _use_token_or_no_wait(self) -> None:
        options = self.options
        token = options.token
        if token is not None:
            if token.deadline is not None and token.clock is not self.clock:
                raise ValueError(
                    f"token must have its deadline on the retry's clock {self.clock!r}, "
                    f"not on {token.clock!r}: make the token where that clock is the current one"
                )
            self.token = token
        if active_no_wait:
            limits = (options.max_attempts, *active_no_wait.copy().values())
            self.max_attempts = min((each for each in limits if each is not None), default=None)
            self._clock = self.skipping = SkippingClock(self.clock)
            self.always_waits = True

    @property
    def clock(self) -> Clock:
        """What measures the run."""
        if self._clock is None:
            self._clock = resolve_clock(None)
        return self._clock

    # What follows a failure

    def plan_retry(self, demand: Demand) -> StopReason | None:
        """Set the ``delay`` before the next attempt, and pay for it; return why there is none.

        ``demand`` is what ``note_failure()`` returned. A budget that has to be awaited is not asked
        here.
        """
        options = self.options
        if self.token is not None or options.limits_time:
            reason = self.limit_reached()
            if reason is not None:
                return reason
        most = self.max_attempts
        if most is not None and self.attempts >= most:
            return StopReason.MAX_ATTEMPTS
        # Polled even if the error says how long to wait: the delay that this replaces is used up.
        is_asked = demand.__class__ is float
        reason = self.poll_policy(None if is_asked else demand)  # type: ignore[arg-type]
        if reason is not None:
            return reason
        if is_asked:
            self.delay = demand  # type: ignore[assignment]
        circuit_is_open = self.error.__class__ is CircuitOpen and self.lengthen_delay()
        reason = self._limit_of_wait() if options.limits_time else None
        if circuit_is_open and (reason is StopReason.DEADLINE or self.skipping is not None):
            reason = StopReason.CIRCUIT_OPEN
        if reason is not None:
            self.is_waiting = True
        elif options.budget is not None and not (self.awaits and options.awaits_budget):
            self.failing_component = "the budget"
            self.is_paid = is_paid = options.budget.try_acquire()
            reason = None if is_paid else StopReason.BUDGET
        return reason

    def _limit_of_wait(self) -> StopReason | None:
        """Return which limit the wait of ``delay`` would pass; None: none."""
        end = self.now + self.delay
        if self.deadline is not None and end >= self.deadline:
            return StopReason.DEADLINE
        if self.latest_start is not None and end > self.latest_start:
            return StopReason.MAX_ELAPSED_TIME
        return None

    # The limits

    def is_cancelled(self) -> bool:
        """Whether a token cancels it, or would if the waits had not been skipped."""
        token = self.token
        if token is None:
            return False
        if token.cancelled:
            return True
        if self.skipping is None or token.deadline is None:
            return False
        return self.clock.monotonic() >= token.deadline

    def limit_reached(self) -> StopReason | None:
        """Return which limit forbids another attempt, now; None: none does."""
        if self.token is not None and self.is_cancelled():
            return StopReason.CANCELLED
        if self.options.limits_time:
            monotonic = self._monotonic
            self.now = now = monotonic()
            if self.deadline is not None and now >= self.deadline:
                return StopReason.DEADLINE
            if self.latest_start is not None and now > self.latest_start:
                return StopReason.MAX_ELAPSED_TIME
        return None

    def is_refused(self) -> bool:
        """Whether a call must not be made: the last check of the token, right before the call.

        The first attempt is always made.
        """
        token = self.token
        return token is not None and self.attempts > 1 and token.cancelled

    def error_for(self, no_result: NoResult) -> Exception:
        """Return an exception that describes an attempt that was cut or refused."""
        token = self.token
        if no_result is CUT and self.cut_for is None:
            error = TimeoutError(f"the attempt took longer than {self.options.attempt_timeout!r} s")
            error.__context__ = self.cut
            return error
        if no_result is CUT and self.cut_for is StopReason.DEADLINE:
            return DeadlineExceeded()
        return token._error() if token is not None and token.cancelled else DeadlineExceeded()

    # The policy

    def poll_policy(self, chosen: BackOff | None = None) -> StopReason | None:
        """Poll the policy that ``on`` chose, or that of the retry, for the ``delay``.

        Returns why there is none.
        """
        self.failing_component = "the back-off policy"
        options, poll = self.options, self._poll
        if chosen is not None and chosen is not options.backoff:
            poll = self._poll_of(chosen)
        elif poll is None:  # at the first failure: its limits of elapsed time count from here
            # The delays of an immutable one need no check: it is of this package.
            policy = options.backoff
            poll = policy.next_backoff if options.is_immutable else self._started(policy)
            self._poll = poll
        answer: Any = poll()
        if answer.__class__ is float:
            self.delay = answer
            return None
        self.policy = chosen or options.backoff
        try:
            if isinstance(answer, End) and answer.error is not None:
                raise answer.error
        finally:
            del answer  # the traceback of its error refers to this frame: a reference cycle
        return StopReason.CANCELLED if self.is_cancelled() else StopReason.EXHAUSTED

    def _poll_of(self, chosen: BackOff) -> Poll:
        """Return a function that polls the run's copy of a policy that ``on`` chose."""
        if self._chosen is None:
            self._chosen = {}
        known = self._chosen.get(id(chosen))
        if known is None:
            if len(self._chosen) == _MOST_POLICIES:  # `on` makes a new one for each error
                del self._chosen[next(iter(self._chosen))]
            # With the policy itself, so that no other gets its id meanwhile.
            known = self._chosen[id(chosen)] = chosen, self._started(chosen)
        return known[1]

    def _started(self, policy: BackOff) -> Poll:
        """Return a function that polls a copy of ``policy``, which begins here."""
        backoff = start_policy("backoff", policy, self.clock)
        underlying = self.clock if self.skipping is None else self.skipping.clock
        started = PolicyRun(backoff, underlying, () if self.token is None else (self.token,))
        self.token = started.token
        return started.ask

    # The circuit breaker

    def ask_circuit(self) -> Exception | None:
        """Ask the circuit breaker, right before an attempt; return the error if it is open."""
        self.failing_component = "the circuit breaker"
        try:
            self.ticket = self.options.breaker.allow()
        except CircuitOpen as refused:
            self.refund()
            last = self.error  # why the circuit opened, perhaps; of several refusals, once
            set_link(
                refused, "__cause__", last.__cause__ if last.__class__ is CircuitOpen else last
            )
            return refused
        except Exception as failure:
            append_cause(failure, self.error)
            raise
        return None

    def tell_circuit(self, error: BaseException | None) -> None:
        """Tell the circuit breaker how an attempt ended: by an ``error`` as for ``decide()``."""
        breaker = self.options.breaker
        self.failing_component = "the circuit breaker"
        try:
            if error is REFUSED or (error is CUT and self.cut_for is not None):
                breaker.release(self.ticket)  # it says nothing about the service
            else:
                breaker.record(self.ticket, self.error_for(CUT) if error is CUT else error)
        except Exception as failure:
            if error is not None:
                append_cause(failure, error)
            raise
        self.ticket = None  # an interrupt before leaves it to refund()

    def lengthen_delay(self) -> bool:
        """Make ``delay`` last until the circuit lets calls through, if its error says when.

        Returns:
            Whether it was made longer; also whether the circuit is open at all where waits are
            skipped: its own clock goes on as it is, so it would be met again and again.
        """
        left = self.error.seconds or SHORTEST_REFUSAL
        if self.delay >= left and self.skipping is None:
            return False
        self.delay = max(self.delay, left)
        return True

    # The end

    @property
    def is_untouched(self) -> bool:
        """Whether the error of the first attempt passes unchanged: ``on`` does not retry it."""
        return self.reason is StopReason.NOT_RETRIED and self.attempts == 1

    def fail(self, failure: Exception) -> StopReason:
        """Store the exception of a component other than the operation, to be raised at the end."""
        if self.failure is not None:
            append_cause(failure, self.failure)
        self.failure = failure
        self.failed_component = self.failing_component
        return StopReason.FAILED

    def refund(self) -> None:
        """Give back what an attempt took that was not made, or not told: budget and ticket."""
        if self.is_paid and self.options.budget is not None:
            try:
                self.options.budget.release()
            except Exception:  # of the budget: not asked again; an interrupt comes before
                self.is_paid = False
                raise
            self.is_paid = False
        if self.ticket is not None:
            complete(self.options.breaker.release, self.ticket)  # no effect if it was told
            self.ticket = None

    def close(self) -> None:
        """Cancel the token of the attempts, because the run has ended or was abandoned.

        A context may keep an attempt, and with it the run, for a long time. So the run drops
        everything else.
        """
        self.refund()  # if an interrupt has prevented it
        self.result = self.current = self.outer = self.operation = None
        self.args, self.kwargs = (), NO_KWARGS
        self.cancel_attempts()

    def cancel_attempts(self) -> None:
        """Cancel the token of the attempts, but keep what is needed to leave the run."""
        token = self.__dict__.setdefault(TOKEN, None)
        if token is not None:
            token.cancel()

    def end(self, reason: StopReason) -> None:
        """Store why the run ended, and when."""
        if self.is_paid or self.ticket is not None:
            self.refund()
        if self.began is not None:
            monotonic = self._monotonic
            self.ended = monotonic()
        self.reason = reason  # last: another thread may ask for the outcome

    def outcome(self) -> Outcome:
        """Return how far the run has come."""
        reason, elapsed = self.reason, 0.0
        if self.began is not None:
            monotonic = self._monotonic
            elapsed = (monotonic() if reason is None else self.ended) - self.began
        delay = self.delay if self.is_waiting and reason is None else None
        outcome: Outcome = new_tuple(
            Outcome, (self.name, self.attempts, elapsed, self.waited, delay, reason, self.error)
        )
        if self.args or self.kwargs:
            # A copy: what a hook does to it does not reach the operation.
            outcome.__dict__.update(args=self.args, kwargs=dict(self.kwargs))
        return outcome
