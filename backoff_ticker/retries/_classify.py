"""Which errors count: what follows the error of an attempt if no limit is reached."""

from __future__ import annotations

from .._error_chain import find_permanent, unwrapped
from .._errors import (
    BackoffTickerError,
    Cancelled,
    CircuitOpen,
    DeadlineExceeded,
    RetryAfter,
)
from .._operation import answered
from .._validation import as_seconds
from ._outcome import Ending, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, TypeAlias

    from ..policies import BackOff
    from ._options import Options

    # A wait of some seconds, or one that a policy says; or the end.
    Demand: TypeAlias = float | BackOff | Ending
    Rule: TypeAlias = bool | float | BackOff

ASK_ON: Final[Any] = object()
"""What ``classify()`` returns where a function that was given as ``on`` has to be asked."""


def told(error: Exception) -> BaseException:
    """Return the error that hooks are told, and that is raised: the one inside a marker."""
    permanent = find_permanent(error)
    return unwrapped(error if permanent is None else permanent)


def classify(options: Options, error: Exception, *, was_cut: bool = False) -> Demand:
    """Return what follows the error of an attempt if no limit is reached, or ``ASK_ON``.

    ``was_cut``: its own limit of time has cut the attempt, which is then retried unless a function
    that was given as ``on``, or a rule for its class, says no.
    """
    rules: Any = options.rules
    # Markers are errors of the package: most errors cost only this look.
    if error.__cause__ is not None or isinstance(error, BackoffTickerError):
        if find_permanent(error) is not None:
            return Ending(StopReason.PERMANENT, "the error is permanent")
        if isinstance(error, RetryAfter):
            return _bounded(options, error.seconds)
        if isinstance(error, CircuitOpen) and error.breaker is options.breaker is not None:
            return options.backoff
        was_stopped = isinstance(error, Cancelled) and not isinstance(error, DeadlineExceeded)
        if was_stopped and rules is not None:
            # What was stopped on purpose is not retried because a rule is for every error.
            rules = {kind: rule for kind, rule in rules.items() if issubclass(kind, Cancelled)}
    if rules is None:
        return ASK_ON  # type: ignore[no-any-return]
    for kind in type(error).__mro__:
        if kind in rules:
            rule = rules[kind]
            return options.backoff if rule is True else _demand_of(options, rule)
    return options.backoff if was_cut else _not_retried()


async def reconsidered(run: Any, error: Exception, demand: Demand) -> Demand:
    """Return what follows an error, after ``classify()``, which knows no run and asks nobody.

    ``run`` is a ``Run`` or a hedged call.
    """
    if isinstance(error, Cancelled) and run.limits.is_cancelled():
        return run.limits.ending_by_token()  # type: ignore[no-any-return]
    if demand is not ASK_ON:
        return demand
    run.component = "on"
    answer = await answered(run.options.on(error), "on", awaits=run.awaits)
    if not isinstance(answer, bool):
        expected = "a bool, seconds >= 0 or a timedelta"
        answer = as_seconds("what on returns", answer, expected)
    return run.options.backoff if answer is True else _demand_of(run.options, answer)


def _demand_of(options: Options, rule: Rule) -> Demand:
    if rule is False:
        return _not_retried()
    return _bounded(options, rule) if isinstance(rule, float) else rule


def _not_retried() -> Ending:
    return Ending(StopReason.NOT_RETRIED, "on does not retry this error")


def _bounded(options: Options, seconds: float) -> float:
    """Return a wait that the operation or ``on`` asked for, at most ``max_retry_after``."""
    most = options.max_retry_after
    return seconds if most is None else min(seconds, most)
