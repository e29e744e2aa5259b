"""What follows a first attempt that failed, when nobody had begun a run for it."""

from __future__ import annotations

from types import CoroutineType

from ..clock import resolve_clock
from ..waiting import CHECKPOINT_EVERY, checkpoint
from ._awaitables import is_awaitable, refuse_coroutine, refuse_plain
from ._drive import NO_KWARGS, drive, drive_async
from ._run import MARKERS, Run
from ._skipping import skippers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._drive import Args, Kwargs
    from ._rules import Rules


def go_on(  # noqa: PLR0913, PLR0917 - what is known of the first attempt
    rules: Rules,
    name: str,
    error: Exception,
    began: float | None,
    operation: Callable[..., Any],
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Any:
    """Call an operation again until it succeeds; return its result, or raise how the run ended.

    Where retries come at once, a run begins only with a failure after which there may be none.
    """
    made, failed = 1, None
    if rules.at_once and not skippers:
        failed = resolve_clock(rules.clock).monotonic()
        on, most, token = rules.on, rules.max_attempts, rules.token
        # The short condition of Run.judge; tests/retries/test_same_everywhere.py guards it.
        while (
            (most is None or made < most)
            and isinstance(error, on)
            and error.__cause__ is None
            and not isinstance(error, MARKERS)
            and (token is None or not token.cancelled)  # right before the call
        ):
            made += 1
            try:
                result = operation(*args, **kwargs)
            except Exception as failure:  # noqa: BLE001 - judged above, or by the run
                error = failure
            except BaseException:
                del error  # as below
                raise
            else:
                del error  # it leads to this frame
                if result.__class__ is CoroutineType:
                    refuse_coroutine(name, result)
                return result
    run = Run(rules, name, error, began, failed, made)
    del error
    return drive(run, operation, args, kwargs)


async def go_on_async(  # noqa: PLR0913, PLR0917 - as above
    rules: Rules,
    name: str,
    error: Exception,
    began: float | None,
    operation: Callable[..., Any],
    args: Args = (),
    kwargs: Kwargs = NO_KWARGS,
) -> Any:
    """Await an operation again until it succeeds, as ``go_on()`` calls one."""
    made, failed = 1, None
    if rules.at_once and not skippers:
        failed = resolve_clock(rules.clock).monotonic()
        on, most = rules.on, rules.max_attempts
        # As above. A token never comes here.
        while (
            (most is None or made < most)
            and isinstance(error, on)
            and error.__cause__ is None
            and not isinstance(error, MARKERS)
        ):
            if made % CHECKPOINT_EVERY == 0:
                await checkpoint
            made += 1
            try:
                awaitable = operation(*args, **kwargs)
                plain = awaitable.__class__ is not CoroutineType and not is_awaitable(awaitable)
                result = None if plain else await awaitable
            except Exception as failure:  # noqa: BLE001 - judged above, or by the run
                error = failure
            except BaseException:
                del error  # as below
                raise
            else:
                del error  # it leads to this frame
                if plain:
                    refuse_plain(name, awaitable)
                return result
    run = Run(rules, name, error, began, failed, made)
    del error
    return await drive_async(run, operation, args, kwargs)
