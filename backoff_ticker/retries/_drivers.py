"""The two drivers that bring a run to its end: one for a thread, one for a coroutine.

What costs more than the operation itself is made only when needed. The same functions decide in
each case:

* Before the first failure there is no run: ``call()``. (If there are hooks, or settings of the
  process: ``drive_from_start()``.)
* While ``Options.classify()`` alone decides, and no wait follows, there is no run either:
  ``drive_after_failure()``.
* Without hooks a driver makes attempts and waits as ``Run`` says: ``drive()``.
* With hooks it performs ``Steps``.
"""

from __future__ import annotations

from types import CoroutineType

from .._errors import CircuitOpen
from ..waiting import CHECKPOINT_EVERY, checkpoint
from ._ask_budget import ask_budget
from ._attempt_context import close_run, enter_run, show_next_attempt
from ._attempt_scope import attempt_scope
from ._final_error import result_of, result_of_async
from ._no_wait import active_no_wait
from ._operation import (
    NO_KWARGS,
    is_awaitable,
    name_of,
    not_awaitable,
    raise_coroutine_returned,
)
from ._options import Awaiting
from ._run import ASK_BUDGET, CUT, REFUSED, Run
from ._settings import settings
from ._steps import END, Steps
from ._wait import wait, wait_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any

    from ._operation import Args, Kwargs, Operation
    from ._options import Options
    from ._outcome import StopReason


def drive_from_start(
    options: Options,
    name: str,
    operation: Operation,
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Any:
    """Call an operation as the options and the settings of the process say; see ``drive()``."""
    if settings.in_use:
        known = options.under_settings()
        if known is None:
            return operation(*args, **kwargs)
        options = known
    return drive(Run(options, name), operation, args, kwargs)


def drive_from_start_async(
    options: Options,
    name: str,
    operation: Operation,
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Awaitable[Any]:
    """Return what awaits an operation as ``drive_from_start()`` calls one."""
    if settings.in_use:
        known = options.under_settings()
        if known is None:
            return operation(*args, **kwargs)  # type: ignore[no-any-return]
        options = known
    return drive_async(Run(options, name), operation, args, kwargs)


def drive(  # noqa: C901 - its clean-up is here, too
    run: Run,
    operation: Operation,
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Any:
    """Call an operation until the run ends; return its result, or raise how the run ended.

    Args:
        run: The run.
        operation: What to call.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """
    error: Any = run.error  # of the last attempt, if attempts were made already
    run.args, run.kwargs = args, kwargs
    try:
        if run.is_tracked:
            enter_run(run)
        if run.options.needs_steps:
            return _perform_steps(run, operation, args, kwargs)
        attempt = _call if run.options.breaker is None else _call_through_breaker
        if error is None:
            run.attempts += 1
            if run.is_tracked:
                show_next_attempt(run)
            error = attempt(run, operation, args, kwargs)
        while error is not None:
            reason: Any = run.after_failure(error)
            if reason is None and (run.delay or run.always_waits):
                reason = wait(run)
            if reason is not None:
                run.end(reason)
                return result_of(run)
            run.attempts += 1
            if run.is_tracked:
                show_next_attempt(run)
            error = attempt(run, operation, args, kwargs)
        return run.succeeded()
    finally:
        run.error = error = None  # its traceback refers to this frame: a reference cycle
        if run.is_tracked:
            try:
                close_run(run)
            except BaseException:  # an interrupt
                close_run(run)
                raise
        run.refund()


async def drive_async(  # noqa: C901 - as above
    run: Run,
    operation: Operation,
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Any:
    """Await an operation until the run ends, as ``drive()`` calls one."""
    run.awaits = True
    error: Any = run.error
    run.args, run.kwargs = args, kwargs
    try:
        if run.is_tracked:
            enter_run(run)
        if run.options.needs_steps:
            return await _perform_steps_async(run, operation, args, kwargs)
        attempt = _call_async if run.options.breaker is None else _call_through_breaker_async
        if error is None:
            run.attempts += 1
            if run.is_tracked:
                show_next_attempt(run)
            error = await attempt(run, operation, args, kwargs)
        while error is not None:
            reason: Any = run.after_failure(error)
            if reason.__class__ is Awaiting:
                reason = await _answer(run, reason)
            if reason is None and (
                run.delay or run.always_waits or run.attempts % CHECKPOINT_EVERY == 0
            ):
                reason = await wait_async(run)
            if reason is not None:
                run.end(reason)
                return await result_of_async(run)
            run.attempts += 1
            if run.is_tracked:
                show_next_attempt(run)
            error = await attempt(run, operation, args, kwargs)
        return run.succeeded()
    finally:
        run.error = error = None  # as above
        if run.is_tracked:
            try:
                close_run(run)
            except BaseException:  # an interrupt
                close_run(run)
                raise
        run.refund()


async def _answer(run: Run, reason: Any) -> StopReason | None:
    """Return what ``on`` and the budget decide, which have to be awaited."""
    try:
        if reason is not ASK_BUDGET:
            reason = run.after_answer(await reason())
        if reason is ASK_BUDGET:
            await ask_budget(run)
            reason = run.after_budget()
    except Exception as failure:  # noqa: BLE001 - of `on` or the budget: raised at the end
        return run.fail(failure)
    return reason  # type: ignore[no-any-return]


def _perform_steps(run: Run, operation: Operation, args: Args, kwargs: Kwargs) -> Any:
    steps = Steps(run)
    attempt = _call if run.options.breaker is None else _call_through_breaker
    error = None
    try:
        steps.advance()
        while steps.step is not END:
            try:
                error = attempt(run, operation, args, kwargs)
            except BaseException as interrupt:  # noqa: BLE001 - the steps raise it again
                steps.throw(interrupt)
            else:
                steps.answer(error)
            error = None
            steps.advance()
        return result_of(run)
    finally:
        steps.close()
        error = None


async def _perform_steps_async(run: Run, operation: Operation, args: Args, kwargs: Kwargs) -> Any:
    steps = Steps(run)
    attempt = _call_async if run.options.breaker is None else _call_through_breaker_async
    error = None
    try:
        await steps.advance_async()
        while steps.step is not END:
            try:
                error = await attempt(run, operation, args, kwargs)
            except BaseException as interrupt:  # noqa: BLE001 - the steps raise it again
                steps.throw(interrupt)
            else:
                steps.answer(error)
            error = None
            await steps.advance_async()
        return await result_of_async(run)
    finally:
        steps.close()
        error = None


def _call_through_breaker(
    run: Run, operation: Operation, args: Args, kwargs: Kwargs
) -> Exception | None:
    """Call the operation once, unless the circuit is open; return what ``_call()`` returns."""
    refused = run.ask_circuit()
    if refused is not None:
        return refused
    try:
        error = _call(run, operation, args, kwargs)
    except BaseException as interrupt:
        run.tell_circuit(interrupt)
        raise
    try:
        run.tell_circuit(error)
        return error
    finally:
        del error  # its traceback refers to this frame: a reference cycle


async def _call_through_breaker_async(
    run: Run, operation: Operation, args: Args, kwargs: Kwargs
) -> Exception | None:
    """Call and await the operation once, as ``_call_through_breaker()`` calls it."""
    refused = run.ask_circuit()
    if refused is not None:
        return refused
    try:
        error = await _call_async(run, operation, args, kwargs)
    except BaseException as interrupt:
        run.tell_circuit(interrupt)
        raise
    try:
        run.tell_circuit(error)
        return error
    finally:
        del error  # its traceback refers to this frame: a reference cycle


def _call(run: Run, operation: Operation, args: Args, kwargs: Kwargs) -> Exception | None:
    """Call the operation once; return the ``error`` that ``Run.after_attempt()`` takes.

    Raises:
        TypeError: The operation returned a coroutine.
    """
    if run.token is not None and run.is_refused():
        return REFUSED
    run.is_paid = False
    try:
        # No other call between the check of the token and this one: a signal handler could come
        # there and cancel the token, and the operation would be called after the cancel.
        run.result = operation(*args, **kwargs)
    except Exception as failure:  # noqa: BLE001 - the run decides about it
        return failure
    if run.result.__class__ is CoroutineType:
        run.failing_component = run.name
        raise_coroutine_returned(run.name, run.result)
    return None


async def _call_async(
    run: Run, operation: Operation, args: Args, kwargs: Kwargs
) -> Exception | None:
    """Call and await the operation once, unless it is cut; return what ``_call()`` returns.

    Raises:
        TypeError: What the operation returned cannot be awaited.
    """
    cut = attempt_scope(run) if run.options.can_cut or run.token is not None else None
    if cut is not None:
        await cut.block.enter_async()
    refused = plain = False
    try:
        refused = run.token is not None and run.is_refused()
        if not refused:
            run.is_paid = False
            awaitable = operation(*args, **kwargs)  # right after the check, as above
            plain = not is_awaitable(awaitable)
            run.result = None if plain else await awaitable
    except BaseException as failure:
        if cut is not None and cut.leave(failure):
            await cut.block.settle()
        if run.cut is failure:
            return CUT
        if not isinstance(failure, Exception):
            raise
        return failure
    if cut is not None and cut.leave(None):
        await cut.block.settle()
    if plain:
        run.failing_component = run.name
        raise not_awaitable(run.name, awaitable)
    return REFUSED if refused else None


def drive_after_failure(  # noqa: PLR0913, PLR0917 - what is known of the first attempt
    options: Options,
    name: str,
    error: Exception,
    began: float | None,
    operation: Operation,
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Any:
    """Call an operation again whose first attempt failed; do what ``drive()`` does.

    A run begins only with the first failure that does more than repeat the call at once.

    Args:
        options: The options.
        name: The name of the operation.
        error: What the first attempt raised.
        began: When that attempt began; None: that was not measured.
        operation: What to call.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """
    attempts = 1
    at_once = options.attempts_at_once
    if at_once is None:
        at_once = options.find_attempts_at_once()
    if at_once and not active_no_wait:
        token = options.token
        for number in at_once:
            # The check of the token comes last, as in _call().
            if (
                error.__class__ is CircuitOpen  # which may say how long to wait
                or options.classify(error) is not None
                or (token is not None and token.cancelled)
            ):
                break
            attempts = number
            try:
                result = operation(*args, **kwargs)
            except Exception as failure:  # noqa: BLE001 - decided about above, or by the run
                error = failure
            except BaseException:
                del error  # its traceback refers to this frame: a reference cycle
                raise
            else:
                del error
                if result.__class__ is CoroutineType:
                    raise_coroutine_returned(name, result)
                return result
    run = Run(options, name, began, attempts)
    run.error = error
    del error
    return drive(run, operation, args, kwargs)


async def drive_after_failure_async(  # noqa: PLR0913, PLR0917 - as above
    options: Options,
    name: str,
    error: Exception,
    began: float | None,
    operation: Operation,
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Any:
    """Await an operation again whose first attempt failed, as ``drive_after_failure()`` calls one.

    Nothing can cut its attempts.
    """
    attempts = 1
    at_once = options.attempts_at_once
    if at_once is None:
        at_once = options.find_attempts_at_once()
    if at_once and not active_no_wait:
        for number in at_once:
            if error.__class__ is CircuitOpen or options.classify(error) is not None:
                break
            if attempts % CHECKPOINT_EVERY == 0:
                await checkpoint()
            attempts = number
            try:
                awaitable = operation(*args, **kwargs)
                plain = awaitable.__class__ is not CoroutineType and not is_awaitable(awaitable)
                result = None if plain else await awaitable
            except Exception as failure:  # noqa: BLE001 - as above
                error = failure
            except BaseException:
                del error  # as above
                raise
            else:
                del error
                if plain:
                    raise not_awaitable(name, awaitable)
                return result
    run = Run(options, name, began, attempts)
    run.error = error
    del error
    return await drive_async(run, operation, args, kwargs)


def call(options: Options, operation: Operation, name: str = "") -> Any:
    """Call ``operation()`` as the options say; if it succeeds, nothing else is called."""
    if options.starts_early or settings.in_use:
        return drive_from_start(options, name or name_of(operation), operation)
    began = options.start_of_limits()
    try:
        result = operation()
    except Exception as caught:  # noqa: BLE001 - the run decides about it
        error = caught
    else:
        if result.__class__ is CoroutineType:
            raise_coroutine_returned(name or name_of(operation), result)
        if options.budget is not None:
            options.budget.success()
        return result
    try:
        return drive_after_failure(options, name or name_of(operation), error, began, operation)
    finally:
        del error


async def call_async(options: Options, operation: Operation, name: str = "") -> Any:
    """Await ``operation()`` as ``call()`` calls it."""
    if options.starts_early or options.can_cut or settings.in_use:
        return await drive_from_start_async(options, name or name_of(operation), operation)
    began = options.start_of_limits()
    plain = False
    try:
        awaitable = operation()
        plain = not is_awaitable(awaitable)
        result = None if plain else await awaitable
    except Exception as caught:  # noqa: BLE001 - the run decides about it
        error = caught
    else:
        if plain:
            raise not_awaitable(name or name_of(operation), awaitable)
        if options.budget is not None:
            options.budget.success()
        return result
    try:
        return await drive_after_failure_async(
            options, name or name_of(operation), error, began, operation
        )
    finally:
        del error
