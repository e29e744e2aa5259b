"""What follows a failure: whether its error counts, and when the next attempt is due.

A retry uses this, and so does a hedged call.
"""

from __future__ import annotations

from .._error_chain import find_permanent, unwrapped
from .._errors import (
    BackoffTickerError,
    Cancelled,
    CircuitOpen,
    CircuitState,
    DeadlineExceeded,
    RetryAfter,
)
from .._operation import answered
from .._validation import safe_repr
from ..circuits import checked_answer, rule_for
from ..policies import End, PolicyRun, start_policy
from ._limits import Limits, SkippingClock, underlying
from ._outcome import Ending, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final, TypeAlias

    from ..clock import Clock
    from ..policies import BackOff
    from ._options import Options

    # A wait of some seconds, or one that a policy says; or the end.
    Demand: TypeAlias = float | BackOff | Ending
    Rule: TypeAlias = bool | float | BackOff

ASK_ON: Final[Any] = object()
"""What ``classify()`` returns where a function that was given as ``on`` has to be asked."""

_SHORTEST_REFUSAL = 0.01
"""Seconds until the next attempt if a circuit is open and nobody knows for how long: while probes
are on their way, a policy without delays would spin."""


def unmarked(error: Exception) -> BaseException:
    """Return the error that hooks are told, and that is raised: the one inside a marker."""
    permanent = find_permanent(error)
    return unwrapped(error if permanent is None else permanent)


def classify(options: Options, error: Exception, *, was_cut: bool = False) -> Demand:
    """Return what follows the error of an attempt if no limit is reached, or ``ASK_ON``.

    ``was_cut``: its own timeout has cut the attempt, which is then retried unless a function
    that was given as ``on``, or a rule for its class, says no.
    """
    base: type = object
    # Markers are errors of the package: most errors cost only this look.
    is_marked = error.__cause__ is not None or isinstance(error, BackoffTickerError)
    if is_marked and not options.is_off:
        if find_permanent(error) is not None:
            return Ending(StopReason.PERMANENT, "the error is permanent")
        if isinstance(error, RetryAfter):
            return _bounded(options, error.seconds)
        if isinstance(error, CircuitOpen) and error.breaker is options.breaker is not None:
            return options.backoff
        if isinstance(error, Cancelled) and not isinstance(error, DeadlineExceeded):
            base = Cancelled  # what was stopped on purpose is not meant by a rule for every error
    if options.rules is None:
        return ASK_ON
    rule = rule_for(options.rules, error, base)
    if rule is None:
        rule = was_cut
    return options.backoff if rule is True else _demand_of(options, rule)


async def reconsidered(run: Any, error: Exception, demand: Demand) -> Demand:
    """Return what follows an error, after ``classify()``, which knows no run and asks nobody.

    ``run`` is a ``Run`` or a hedged call.
    """
    if isinstance(error, Cancelled) and run.limits.is_cancelled():
        return run.limits.ending_by_token()
    if demand is not ASK_ON:
        return demand
    run.component = "on"
    answer = checked_answer(await answered(run.options.on(error), "on", awaits=run.awaits))
    return run.options.backoff if answer is True else _demand_of(run.options, answer)


def _demand_of(options: Options, rule: Rule) -> Demand:
    if rule is False:
        return Ending(StopReason.NOT_RETRIED, "on does not retry this error")
    return _bounded(options, rule) if isinstance(rule, float) else rule


def _bounded(options: Options, seconds: float) -> float:
    """Return a wait that the operation or ``on`` asked for, at most ``max_retry_after``."""
    most = options.max_retry_after
    return seconds if most is None else min(seconds, most)


# The next attempt


def start_policies(options: Options, clock: Clock) -> Mapping[int, Callable[[], Any]]:
    """Return how to ask a run's own copy of each policy, by its id. The copies begin here."""
    return {
        id(policy): PolicyRun(start_policy("backoff", policy, clock), underlying(clock)).ask
        for policy in options.policies
    }


def ending_by_policy(policy: BackOff, end: object, limits: Limits) -> Ending:
    """Return how a run ends as a policy has no delay left, or has failed."""
    if isinstance(end, End) and end.error is not None:
        return Ending(StopReason.FAILED, "the back-off policy failed", end.error)
    if limits.is_cancelled():
        return limits.ending_by_token()
    return Ending(StopReason.EXHAUSTED, f"the policy stopped: {safe_repr(policy)}")


def ending_by_circuit(refusal: CircuitOpen) -> Ending | None:
    """Return how a run ends if a circuit stays open until somebody resets it; None: it does not."""
    if refusal.seconds is None and refusal.state is CircuitState.OPEN:
        return Ending(StopReason.CIRCUIT_OPEN, "the circuit is open until a reset")
    return None


def wait_for_circuit(refusal: CircuitOpen, delay: float, limits: Limits) -> float | Ending:
    """Return ``delay``, or the time until an open circuit lets calls through, if that is longer."""
    left = refusal.seconds or _SHORTEST_REFUSAL
    if isinstance(limits.clock, SkippingClock):
        # The circuit's own clock goes on as it is: it would be met again and again.
        why = "the circuit is open, and no_wait() does not skip its time"
        return Ending(StopReason.CIRCUIT_OPEN, why)
    ending = limits.reached_by(max(delay, left))
    if ending is not None and ending.reason is StopReason.DEADLINE and left > delay:
        why = f"the circuit stays open longer than timeout={limits.options.timeout!r} allows"
        return Ending(StopReason.CIRCUIT_OPEN, why)
    return ending or max(delay, left)
