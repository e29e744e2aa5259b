"""The cheap first try of a function: where it succeeds, nothing is made for the retry."""

from __future__ import annotations

from types import CoroutineType

from ._engine import drive, drive_async
from ._operation import is_awaitable, name_of, not_awaitable, raise_coroutine_returned
from ._run import Run
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._operation import Operation
    from ._options import Options


def retried(function: Operation, name: str | None, options: Options) -> Operation:
    """Return what calls a function as the options say.

    Args:
        function: The function.
        name: Its name; None: to be found out if it fails.
        options: The options.
    """
    starts_early, limits_time = options.starts_early, options.limits_time
    budget = options.budget

    def call(*args: Any, **kwargs: Any) -> Any:
        if starts_early or settings.in_use:
            return drive(Run(options.under_settings(), name, function, args, kwargs))
        began = options.start_of_limits() if limits_time else None
        attempts = 0
        while True:
            attempts += 1
            try:
                result = function(*args, **kwargs)
            except Exception as caught:  # noqa: BLE001 - the run decides about it
                error = caught
            else:
                if result.__class__ is CoroutineType:
                    raise_coroutine_returned(name or name_of(function), result)
                if budget is not None:
                    budget.success()
                return result
            if not options.may_try_again(error, attempts):
                break
        try:
            return drive(Run(options, name, function, args, kwargs, attempts, began), error)
        finally:
            del error

    return call


def retried_async(function: Operation, name: str | None, options: Options) -> Operation:
    """Return a coroutine function that awaits a function as the options say."""
    starts_early = options.starts_early or options.can_cut
    limits_time, budget = options.limits_time, options.budget

    async def call(*args: Any, **kwargs: Any) -> Any:
        if starts_early or settings.in_use:
            run = Run(options.under_settings(), name, function, args, kwargs)
            return await drive_async(run)
        began = options.start_of_limits() if limits_time else None
        attempts = 0
        plain = False
        while True:
            attempts += 1
            try:
                result = function(*args, **kwargs)
                plain = result.__class__ is not CoroutineType and not is_awaitable(result)
                if not plain:
                    result = await result
            except Exception as caught:  # noqa: BLE001 - the run decides about it
                error = caught
            else:
                if plain:
                    raise not_awaitable(name or name_of(function), result)
                if budget is not None:
                    budget.success()
                return result
            if not options.may_try_again(error, attempts):
                break
        try:
            run = Run(options, name, function, args, kwargs, attempts, began)
            return await drive_async(run, error)
        finally:
            del error

    return call


def call_once(function: Operation, options: Options) -> Any:
    """Call a function as ``retried()`` does, without making one for a single call."""
    if options.starts_early or options.limits_time or settings.in_use:
        return retried(function, options.name, options)()
    try:
        result = function()
    except Exception as caught:  # noqa: BLE001 - the run decides about it
        error = caught
    else:
        if result.__class__ is CoroutineType:
            raise_coroutine_returned(options.name or name_of(function), result)
        if options.budget is not None:
            options.budget.success()
        return result
    try:
        return drive(Run(options, options.name, function, attempts=1), error)
    finally:
        del error
