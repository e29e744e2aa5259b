"""What follows an attempt, decided in one place; what users' functions answer is awaited.

A limit that passes later, in a hook or a wait, ends the run there: see ``perform()``.
"""

from __future__ import annotations

from types import coroutine

from .._error_chain import find_permanent, unwrapped
from .._errors import Cancelled, CircuitOpen, CircuitState, Permanent, RejectedResult, RetryAfter
from .._operation import close_unawaited, is_awaitable
from ._attempt_scope import token_of_attempts
from ._options import ASK_ON
from ._outcome import StopReason
from ._run import CUT, REFUSED, SUCCEEDED, NoResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from ._options import Demand
    from ._run import Run


class Marker:
    """Where a loop takes over from ``perform()``."""

    __slots__ = ()

    def __await__(self) -> Generator[Marker, Any, Any]:
        return (yield self)


AWAIT = Marker()
"""Something has to be awaited, which a plain ``with`` cannot; if the answer is True, it is not."""


async def awaited(run: Run, answer: Any) -> Any:
    """Return what a function of the user answered; what can be awaited is awaited."""
    if answer is None or not is_awaitable(answer):
        return answer
    if run.awaits:
        if run.is_loop and await AWAIT:
            close_unawaited(answer)
            return None
        return await answer
    close_unawaited(answer)
    raise TypeError(
        f"{run.failing_component} must be a plain function, not a coroutine function: "
        "only a coroutine can await its answer"
    )


@coroutine  # not async: see perform()
def decide(run: Run, error: Exception | None) -> Generator[Any, Any, StopReason | None]:
    """Decide what follows an attempt; the order of the checks is part of the contract of ``retry``.

    Args:
        run: The run.
        error: What the operation raised, ``CUT`` or ``REFUSED``; None: it returned ``run.result``.

    Returns:
        Why the run ends; None: another attempt follows, after a wait of ``run.delay``.
    """
    demand: Demand = None
    if error is None:
        if (yield from accepts_result(run)):
            return SUCCEEDED
        run.error = RejectedResult(run.result)
    else:
        demand = yield from note_failure(run, error)
        if demand.__class__ is StopReason:
            return demand
    reason = run.plan_retry(demand)
    if reason is None and run.awaits and run.options.awaits_budget:
        yield from _ask_budget(run)
        reason = run.limit_reached()  # the answer may have taken long
        if reason is None and not run.is_paid:
            return StopReason.BUDGET
    return reason


@coroutine
def note_failure(  # noqa: PLR0911 - one for each rule
    run: Run, error: Exception
) -> Generator[Any, Any, Demand]:
    """Store the error of a failure; return whether, and when, it is retried without limits."""
    options = run.options
    was_cut = False
    if error.__class__ is NoResult:
        if error is REFUSED:
            run.attempts -= 1
            if run.current is not None:
                run.current.number = run.attempts
            return run.limit_reached() or StopReason.CANCELLED
        if run.cut_for is not None:
            return run.cut_for
        error, run.cut = run.error_for(CUT), None
        was_cut = True
    run.error = error
    if options.is_off:
        return StopReason.NOT_RETRIED
    demand = options.classify(error, was_cut=was_cut)
    marker = find_permanent(error) if demand is StopReason.PERMANENT else error
    if isinstance(marker, (Permanent, RetryAfter)):
        run.error = unwrapped(marker)
        return demand
    if isinstance(error, Cancelled) and run.is_cancelled():
        return StopReason.CANCELLED
    if demand is ASK_ON:
        run.failing_component = "on"
        demand = options.parse_answer((yield from awaited(run, options.on(error))))
    if isinstance(error, CircuitOpen) and demand is not StopReason.NOT_RETRIED:
        is_for_ever = error.seconds is None and error.state is CircuitState.OPEN
        return StopReason.CIRCUIT_OPEN if is_for_ever else demand
    return demand


@coroutine
def accepts_result(run: Run) -> Generator[Any, Any, bool]:
    """Return whether ``until`` or ``retry_if``, if there is one, accepts ``run.result``."""
    options = run.options
    if options.until is not None:
        run.failing_component = "until"
        return bool((yield from awaited(run, options.until(run.result))))
    if options.retry_if is not None:
        run.failing_component = "retry_if"
        return not (yield from awaited(run, options.retry_if(run.result)))
    return True


async def _ask_budget(run: Run) -> None:
    """Ask the budget to pay for the next attempt.

    A cancel of the run's token, or ``timeout``, ends the question: nothing is paid then.
    """
    budget = run.options.budget
    run.failing_component = "the budget"
    if run.is_loop:
        await AWAIT
    if run.token is None and run.deadline is None:
        run.is_paid = await budget.try_acquire_async()
        return
    token = token_of_attempts(run)
    try:
        async with token.scope():
            run.is_paid = await budget.try_acquire_async()
    except Cancelled:
        if not token.cancelled:
            raise  # an error of the budget
    finally:
        token.cancel()
