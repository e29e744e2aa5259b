"""``CircuitBreaker``: keeps calls away from a service that fails."""

from __future__ import annotations

from functools import wraps
from math import inf, ulp
from types import CoroutineType, SimpleNamespace, UnionType

from .. import _process
from .._errors import CircuitOpen, CircuitState
from .._operation import called, coroutine_returned, kind_of, name_of
from .._process import ProcessBound
from .._sentinels import STOP
from .._unraisable import report
from .._validation import as_count, as_flag, as_hooks, as_seconds, safe_repr
from ..clock import later, resolve_clock
from ..policies import ExponentialBackOff, checked_delay, start_policy
from ..waiting import FREED, acquire, claim_of
from ._circuit import CLOSED, HALF_OPEN, Circuit, CircuitGuard, CircuitTicket, Rules
from ._error_rule import as_error_rule, judged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import Any, TypeVar

    from ..clock import Clock
    from ..policies import BackOff

    F = TypeVar("F", bound=Callable[..., object])
    Hook = Callable[[CircuitState, CircuitState, "CircuitBreaker"], object]

_ABOVE_ZERO = "a finite number of seconds > 0 or a timedelta"
_CURRENT_TIME: Any = SimpleNamespace(
    monotonic=lambda: resolve_clock(None).monotonic(), time=lambda: resolve_clock(None).time()
)
_DEFAULT_BACKOFF = ExponentialBackOff(5, multiplier=2, max_interval=60, max_elapsed_time=None)


class CircuitBreaker(ProcessBound):
    """Stops calls to a service that keeps failing, until a few probes show that it works again.

    A circuit starts *closed*: all calls are let through. Too many failures *open* it: each call
    raises ``CircuitOpen`` at once. After the delay of a back-off policy it is *half-open*: a few
    calls are let through as *probes*. Enough successful probes close the circuit. One that fails
    opens it again, for the next delay.

    Use it as ``with breaker.guard():``, as ``@breaker``, or in a retry: ``breaker=``.

    Example:
        >>> from backoff_ticker import CircuitBreaker, CircuitOpen, ConstantBackOff
        >>> breaker = CircuitBreaker(ConstantBackOff(60), failures=1)
        >>> for _ in range(2):
        ...     try:
        ...         with breaker.guard():
        ...             raise ConnectionError("no route")
        ...     except (ConnectionError, CircuitOpen) as error:
        ...         print(type(error).__name__, breaker.state)
        ConnectionError open
        CircuitOpen open

    An error that ``on`` covers is a failure. Any other is a success, like a normal end: the service
    has answered. A cancel, an interrupt, and the end of a call that began before the circuit last
    changed are neither.

    Thread safety: every method may be called in any thread, event loop, signal handler or
    finalizer, and none waits. After a fork, parent and child each have a circuit.

    Source: Michael Nygard, "Release It!"; rates and ``on`` as in resilience4j; control as in Polly.

    Args:
        backoff: How long the circuit stays open. The breaker asks its own copy, which it resets if
            the circuit was closed. ``STOP`` means until ``reset()``. None means 5 s at first,
            doubled each time up to 60 s, with 50 % jitter, and without end.
        on: Which errors are failures, in each form that ``retry`` takes. Seconds, and the policies
            of a mapping, mean True.
        failures: How many failures in a row open the circuit: an int >= 1. None means 5.
        failure_rate: The share of failures that opens it instead, > 0 and <= 1. It opens at a
            failure, never at a success, once ``minimum_calls`` have ended.
        window_calls: How many of the last calls the rate covers: 1 to 10,000. None means 100.
        window: The rate covers the calls that ended in this time instead: seconds >= 0.001 or a
            timedelta. The window moves in steps of a tenth.
        minimum_calls: An int >= 1. None means 20, or ``window_calls`` if that is less.
        probes: How many probes may run at once: an int >= 1. One that runs on as another fails and
            the circuit opens again counts, too.
        successes: How many probes have to succeed to close the circuit: an int >= 1.
        probe_timeout: How long a probe keeps its place: seconds > 0 or a timedelta. Then another
            call may take it; once one has, the result of the late probe is ignored.
        may_probe: A function without arguments that is asked before each probe; if it returns
            False, the call is refused. It must not wait, and threads may call it at once.
        on_change: A function, or a list or tuple of functions, called as ``f(old, new, breaker)``
            with two ``CircuitState`` after each change, in the thread that made it. Their errors
            go to ``sys.unraisablehook``.
        clock: Measures all times. None means the clock that is current when the breaker is used.

    Raises:
        TypeError, ValueError: An argument is invalid, or does not go with another.
    """

    _kind = "a CircuitBreaker"

    def __init__(
        self,
        backoff: BackOff | None = None,
        *,
        on: type[Exception]
        | tuple[type[Exception], ...]
        | UnionType
        | Mapping[type[Exception], float | timedelta | BackOff]
        | Callable[[Exception], float | timedelta] = Exception,
        failures: int | None = None,
        failure_rate: float | None = None,
        window_calls: int | None = None,
        window: float | timedelta | None = None,
        minimum_calls: int | None = None,
        probes: int = 1,
        successes: int = 1,
        probe_timeout: float | timedelta = 60.0,
        may_probe: Callable[[], bool] | None = None,
        on_change: Hook | list[Hook] | tuple[Hook, ...] | None = None,
        clock: Clock | None = None,
    ) -> None:
        rules = Rules(failures, failure_rate, window_calls, window, minimum_calls)
        rules.probes = as_count("probes", probes, 1)
        rules.successes = as_count("successes", successes, 1)
        self._probe_timeout = as_seconds("probe_timeout", probe_timeout, _ABOVE_ZERO, ulp(0.0))
        if may_probe is not None and not callable(may_probe):
            raise TypeError(f"may_probe must be callable or None, not {safe_repr(may_probe)}")
        self._may_probe = may_probe
        self._hooks: Any = (on_change is not None and as_hooks("on_change", on_change)) or ()
        self._on: Any = as_error_rule("on", on)
        time = _CURRENT_TIME if clock is None else resolve_clock(clock)
        self._monotonic: Callable[[], float] = time.monotonic
        policy = _DEFAULT_BACKOFF if backoff is None else backoff
        self._policy = start_policy("backoff", policy, time)
        self._claim = claim_of(self)
        self._circuit: Circuit = Circuit(rules, CLOSED).closed()  # changed by the claim's holder
        # Who takes the entry "free", by the generation of the process, asks the policy.
        self._turns: dict[int, dict[str, bool]] = {}

    @property
    def state(self) -> CircuitState:
        """The state that a call would meet now: after its delay, an open circuit is half-open."""
        return self._circuit.state_at(self._monotonic())

    def remaining(self) -> float | None:
        """Return the seconds until a call is let through; 0.0: now, or the policy is being asked.

        None: the circuit is open until ``reset()``, or half-open while all its probes are running.
        """
        return self._circuit.seconds_left(self._monotonic())

    def reset(self) -> None:
        """Close the circuit, whatever its state, and forget all earlier calls."""
        self._change(Circuit.closed)

    def open(self, seconds: float | timedelta | None = None) -> None:
        """Open the circuit, for example while the service is being maintained.

        Args:
            seconds: How long, from now: seconds > 0 or a timedelta. The policy is asked, too, but
                its answer is not used: if a probe fails later, its next delay counts. None means
                until ``reset()``; the policy is not asked.

        Raises:
            Exception: The policy failed when it was asked; the circuit is open all the same.
        """
        length = inf if seconds is None else as_seconds("seconds", seconds, _ABOVE_ZERO, ulp(0.0))
        now = self._monotonic()
        self._change(Circuit.opened, now, later(now, length))

    def allow(self) -> CircuitTicket:
        """Let a call through and return its ticket, or raise ``CircuitOpen``.

        It is for a call that no block can span, such as one that ends in a callback. Pass the
        ticket to ``record()`` or ``release()`` then.

        Raises:
            CircuitOpen: The circuit is open, or half-open and lets no further probe through.
            Exception: The policy raised it when it was asked, or ``may_probe`` did.
        """
        return self._circuit.ticket or self._probe()

    def record(self, ticket: CircuitTicket, error: BaseException | None = None) -> None:
        """Record how the call ended that has the ticket: by ``error``, or normally if that is None.

        Raises:
            TypeError: ``error`` is neither an exception nor None; the call does not count.
            Exception: Of ``on``, and the call does not count; or of the policy.
        """
        if error is None and ticket is self._circuit.steady:
            return
        try:
            failed = error is not None and judged(self._on, error)
            self._change(Circuit.ended, ticket, failed, self._monotonic())
        except BaseException:
            self.release(ticket)  # no effect if the result was counted
            raise

    def release(self, ticket: CircuitTicket) -> None:
        """End a call that was not made, or whose result is unknown: a probe frees its place."""
        self._change(Circuit.ended, ticket, None, 0.0)

    def guard(self) -> CircuitGuard:
        """Return a block for one call: ``with breaker.guard():``, or ``async with``."""
        return CircuitGuard(self)

    def __call__(self, function: F, /) -> F:
        """Decorate a function, a method or a coroutine function: each call is a block."""
        target: Any = function
        if isinstance(target, (staticmethod, classmethod)):
            return type(target)(self(target.__func__))  # type: ignore[return-value]
        kind = kind_of(target)
        if not callable(target) or isinstance(target, type) or "generator" in kind:
            raise TypeError(
                "a CircuitBreaker decorates functions, methods and coroutine functions, "
                f"not {safe_repr(target)}: use `with breaker.guard():`"
            )

        @wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            ticket = self.allow()
            try:
                result = target(*args, **kwargs)
            except BaseException as error:
                self.record(ticket, error)
                raise
            self.record(ticket)
            if result.__class__ is CoroutineType:
                instead = "decorate an `async def` function, or use `with breaker.guard():`"
                missed = "a circuit breaker would not see"
                raise coroutine_returned(name_of(target), result, instead, missed)
            return result

        @wraps(target)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            with self.guard():
                return await target(*args, **kwargs)

        return call if kind == "function" else call_async  # type: ignore[return-value]

    if not TYPE_CHECKING:

        def __enter__(self):  # noqa: ANN204 - never returns
            raise TypeError(f"{self._kind} is no block itself: write `with breaker.guard():`")

        __exit__ = __aenter__ = __aexit__ = __enter__

    def _change(self, follow: Callable[..., Circuit], *args: object) -> Circuit:
        """Replace the state by ``follow(state, *args)``, and do what that needs; return it."""
        claim, is_done = self._claim, False
        while not is_done:
            last = self._circuit
            after = follow(last, *args)
            if after is last:
                return last
            acquire(claim)
            try:
                is_done = self._circuit is last  # else another thread was faster
                if is_done:
                    self._circuit = after
            finally:
                claim += FREED
        try:
            self._settle()
        finally:
            for hook in self._hooks if after.state is not last.state else ():
                try:
                    called("on_change", hook, last.state, after.state, self)
                except Exception as error:  # no hook stops the others
                    report(error, "Exception in on_change of a circuit breaker", hook)
        return after

    def _settle(self) -> None:
        """Ask the policy if there is a question for it, unless another thread asks it now."""
        while self._circuit.question is not None and self._circuit.until != inf:
            # A thread of the process from which this one was forked does not ask here.
            turn = self._turns.setdefault(_process.generation, {"free": True})
            try:
                del turn["free"]
            except KeyError:
                return  # the other thread looks for a question again when it has asked
            # ATOMIC: no call before the try: an exception out of a signal handler would leave the
            # policy as one that is being asked, and the circuit would never close again.
            try:
                self._ask(self._circuit.question)
            finally:
                turn["free"] = True

    def _ask(self, question: tuple[float, bool] | None) -> None:
        if question is None:
            return  # another thread was faster
        until, (since, was_closed) = None, question
        try:
            if was_closed:
                self._policy.reset()
            delay = self._policy.next_backoff()
            until = inf if delay is STOP else later(since, checked_delay(self._policy, delay))
        finally:
            self._change(Circuit.answered, question, until)

    def _probe(self) -> CircuitTicket:
        """Return the ticket of a probe, or of a closed circuit if it has closed meanwhile."""
        self._settle()
        ticket, last = CircuitTicket(), self._circuit
        now = self._monotonic()
        ticket.expires = later(now, self._probe_timeout)
        if last.admitted(ticket, now) is not last:
            answer = self._may_probe is None or called("may_probe", self._may_probe)
            if not as_flag("what may_probe returns", answer):
                raise CircuitOpen(None, self, HALF_OPEN)
            try:
                last = self._change(Circuit.admitted, ticket, now)
            except BaseException:
                self.release(ticket)
                raise
        if last.ticket is None and ticket not in last.probes:
            raise CircuitOpen(last.seconds_left(now), self, last.state_at(now))
        return last.ticket or ticket

    def __repr__(self) -> str:
        try:
            shown = self._circuit.shown(self._monotonic())
        except Exception:  # of the clock
            shown = self._circuit.state
        return f"<{type(self).__name__} {shown}>"
