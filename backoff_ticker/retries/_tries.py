"""The cheap first try of a function: where it succeeds, nothing is made for the retry."""

from __future__ import annotations

from types import CoroutineType

from .._operation import is_awaitable, name_of, not_awaitable
from ._attempt_context import leave_first, run_of, show, shown_here
from ._engine import drive, drive_async
from ._operation import raise_coroutine_returned
from ._run import Run
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._operation import Operation
    from ._options import Options


def retried(  # noqa: C901 - of the function inside
    function: Operation, name: str | None, options: Options
) -> Operation:
    """Return what calls a function as the options say.

    Args:
        function: The function.
        name: Its name; None: to be found out if it fails.
        options: The options.
    """
    starts_early, budget, token = options.starts_early, options.budget, options.token
    measures_time = starts_early or options.limits_time

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912 - one call, as it is fast
        began = first = error = None
        attempts = 1
        try:
            if measures_time or settings.in_use:
                if starts_early or settings.overrides:
                    return drive(Run(options.under_settings(), name, function, args, kwargs))
                began = options.start_of_limits()
                if settings.tracks_attempts:
                    first = [shown_here(), options, name, function, args, kwargs, 1, began]
                    show(first)
            while True:
                if error is not None:
                    if first is not None or not options.may_try_again(error, attempts):
                        break
                    if token is not None and token.cancelled:
                        break
                    # No call between the check of the token and that of the function.
                    attempts += 1
                    error = None  # its traceback refers to this frame
                try:
                    result = function(*args, **kwargs)
                except Exception as failure:  # noqa: BLE001 - the run decides about it
                    error = failure
                    continue
                if result.__class__ is CoroutineType:
                    raise_coroutine_returned(name or name_of(function), result)
                if budget is not None:
                    budget.success()
                return result
            try:
                if first is not None:
                    return drive(run_of(first), error)
                return drive(Run(options, name, function, args, kwargs, attempts, began), error)
            finally:
                del error
        finally:
            if first is not None:
                try:
                    leave_first(first)
                except BaseException:  # an interrupt
                    leave_first(first)
                    raise

    return call


def retried_async(  # noqa: C901 - as above
    function: Operation, name: str | None, options: Options
) -> Operation:
    """Return a coroutine function that awaits a function as the options say."""
    starts_early = options.starts_early or options.can_cut
    limits_time, budget = options.limits_time, options.budget

    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912 - as above
        began = first = None
        if starts_early or settings.in_use:
            if starts_early or settings.overrides:
                run = Run(options.under_settings(), name, function, args, kwargs)
                return await drive_async(run)
            began = options.start_of_limits()
            first = [shown_here(), options, name, function, args, kwargs, 1, began]
        elif limits_time:
            began = options.start_of_limits()
        attempts = 1
        error: Any
        try:
            if first is not None:
                show(first)
            while True:
                try:
                    result = function(*args, **kwargs)
                    is_plain = result.__class__ is not CoroutineType and not is_awaitable(result)
                    if not is_plain:
                        result = await result
                except Exception as failure:  # noqa: BLE001 - the run decides about it
                    if first is None and options.may_try_again(failure, attempts):
                        attempts += 1
                        continue
                    error = failure
                    break
                if is_plain:
                    raise not_awaitable(name or name_of(function), result)
                if budget is not None:
                    budget.success()
                return result
            run = Run(options, name, function, args, kwargs, attempts, began)
            return await drive_async(run if first is None else run_of(first), error)
        finally:
            error = None  # its traceback refers to this frame
            if first is not None:
                try:
                    leave_first(first)
                except BaseException:  # an interrupt
                    leave_first(first)
                    raise

    return call
