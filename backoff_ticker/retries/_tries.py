"""The cheap first try of a function: where it succeeds, nothing is made for the retry."""

from __future__ import annotations

from types import CoroutineType

from .._operation import is_awaitable, name_of, not_awaitable
from ._attempt_context import leave_first, run_of, show, shown_here
from ._engine import drive, drive_async, raise_coroutine_returned
from ._run import Run
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._options import Options
    from ._run import Operation


def retried(  # noqa: C901 - counts the nested function
    function: Operation, name: str | None, options: Options
) -> Operation:
    """Return what calls a function as the options say; its name is found out if it fails."""
    is_watched, budget = options.starts_early or options.limits_time, options.budget

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912 - one call: fast
        began = first = token = error = None
        attempts = 1
        if is_watched or settings.in_use:
            if settings.overrides or (is_watched and options.starts_early):
                return drive(Run(options.under_settings(), name, function, args, kwargs))
            if is_watched:  # by a time limit
                began = options.now()
            if settings.tracks_attempts:
                first = [shown_here(), options, name, function, args, kwargs, 1, began]
        try:
            if first is not None:
                show(first)
            # Right before each call but the first: after a cancel, none is made.
            while token is None or not token.cancelled:
                try:
                    result = function(*args, **kwargs)
                except Exception as failure:  # noqa: BLE001 - the run decides about it
                    error = failure
                    if first is None and options.may_try_again(failure, attempts, began):
                        attempts += 1
                        token = options.token
                        continue
                    break
                if type(result) is CoroutineType:
                    raise_coroutine_returned(name or name_of(function), result)
                if budget is not None:
                    budget.success()
                return result
            else:
                attempts -= 1
            if first is not None:
                return drive(run_of(first), error)
            return drive(Run(options, name, function, args, kwargs, attempts, began), error)
        finally:
            error = None  # its traceback refers to this frame
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
    starts_early, budget = options.starts_early or options.can_cut, options.budget
    is_watched = starts_early or options.limits_time

    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912 - as above
        began = first = error = None
        attempts = 1
        if is_watched or settings.in_use:
            if starts_early or settings.overrides:
                run = Run(options.under_settings(), name, function, args, kwargs)
                return await drive_async(run)
            if is_watched:  # by a time limit
                began = options.now()
            if settings.tracks_attempts:
                first = [shown_here(), options, name, function, args, kwargs, 1, began]
        try:
            if first is not None:
                show(first)
            while True:  # without a token: it could cut the call
                try:
                    result = function(*args, **kwargs)
                    is_plain = type(result) is not CoroutineType and not is_awaitable(result)
                    if not is_plain:
                        result = await result
                except Exception as failure:  # noqa: BLE001 - the run decides about it
                    error = failure
                    if first is None and options.may_try_again(failure, attempts, began):
                        attempts += 1
                        continue
                    break
                if is_plain:
                    raise not_awaitable(name or name_of(function), result)
                if budget is not None:
                    budget.success()
                return result
            if first is not None:
                return await drive_async(run_of(first), error)
            run = Run(options, name, function, args, kwargs, attempts, began)
            return await drive_async(run, error)
        finally:
            error = None
            if first is not None:
                try:
                    leave_first(first)
                except BaseException:  # an interrupt
                    leave_first(first)
                    raise

    return call
