"""The two who bring a run to its end: a thread, and a coroutine.

Where no function of the user's is called on the way they go straight, which is why a retry costs
little; else a script says what comes when. What follows a failure ``Run.judge`` says in both.
"""

from __future__ import annotations

from functools import partial
from types import CoroutineType

from ..waiting import CHECKPOINT_EVERY
from ._awaitables import is_awaitable, refuse_coroutine, refuse_plain
from ._cut import cutting
from ._ending import result_of
from ._pause import pause, pause_async
from ._play import Play
from ._script import CUT, END, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from ._outcome import StopReason
    from ._run import Run

    Args = tuple[Any, ...]
    Kwargs = Mapping[str, Any]

NO_KWARGS: Kwargs = {}


def drive(  # noqa: C901 - a call more would cost more than the rest
    run: Run, operation: Callable[..., Any], args: Args = (), kwargs: Kwargs = NO_KWARGS
) -> Any:
    """Call an operation until the run ends; return its result, or raise how it ended."""
    if run.rules.scripted:
        return _drive_script(run, partial(operation, *args, **kwargs))
    error = run.error
    try:
        while True:
            if error is not None:
                try:
                    reason = run.judge(error)
                    if reason is None and (run.delay or run.always_pauses):
                        pause(run)
                        reason = run.look(run.now())
                except Exception as failure:  # noqa: BLE001 - of the policy, `on` or the timer
                    reason = run.fail(failure)
                if reason is not None:
                    return _ended(run, reason)
            run.attempts += 1
            token = run.token
            if token is not None and run.attempts > 1 and token.cancelled:
                return _ended(run, run.refused())
            try:
                # No call stands between the look at the token and this one.
                result = operation(*args, **kwargs)
            except Exception as failure:  # noqa: BLE001 - the run judges it
                error = failure
            else:
                if result.__class__ is CoroutineType:
                    refuse_coroutine(run.name, result)
                if run.rules.budget is not None:
                    run.rules.budget.success()
                return result
    finally:
        run.error = error = None  # it leads to this frame


async def drive_async(  # noqa: C901, PLR0912 - as above
    run: Run, operation: Callable[..., Any], args: Args = (), kwargs: Kwargs = NO_KWARGS
) -> Any:
    """Await an operation until the run ends; return its result, or raise how it ended."""
    rules = run.rules
    if rules.scripted:
        return await _drive_script_async(run, partial(operation, *args, **kwargs))
    error: Any = run.error
    try:
        while True:
            if error is not None:
                try:
                    reason = run.judge_cut() if error is CUT else run.judge(error)
                    if reason is None and (
                        run.delay or run.always_pauses or run.attempts % CHECKPOINT_EVERY == 0
                    ):
                        await pause_async(run)
                        reason = run.look(run.now())
                except Exception as failure:  # noqa: BLE001 - of the policy, `on` or the timer
                    reason = run.fail(failure)
                if reason is not None:
                    return _ended(run, reason)
            run.attempts += 1
            if rules.early_async or run.token is not None:
                error = await _attempt_async(run, partial(operation, *args, **kwargs))
                if error is REFUSED:
                    return _ended(run, run.refused())
                if error is not None:
                    continue
                result = run.result
            else:
                try:
                    awaitable = operation(*args, **kwargs)
                    plain = awaitable.__class__ is not CoroutineType and not is_awaitable(awaitable)
                    result = None if plain else await awaitable
                except Exception as failure:  # noqa: BLE001 - the run judges it
                    error = failure
                    continue
                if plain:
                    refuse_plain(run.name, awaitable)
            if rules.budget is not None:
                rules.budget.success()
            return result
    finally:
        run.error = error = None  # it leads to this frame


def _drive_script(run: Run, operation: Callable[[], Any]) -> Any:
    play = Play(run)
    try:
        play.advance()
        while play.step is not END:
            try:
                answer = _attempt(run, operation)
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                play.throw(interrupt)
            else:
                play.answer(answer)
            answer = None
            play.advance()
        return result_of(run)
    finally:
        play.close()
        run.error = answer = None  # it leads to this frame


async def _drive_script_async(run: Run, operation: Callable[[], Awaitable[Any]]) -> Any:
    play = Play(run)
    try:
        await play.advance_async()
        while play.step is not END:
            try:
                answer = await _attempt_async(run, operation)
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                play.throw(interrupt)
            else:
                play.answer(answer)
            answer = None
            await play.advance_async()
        return result_of(run)
    finally:
        play.close()
        run.error = answer = None  # it leads to this frame


def _attempt(run: Run, operation: Callable[[], Any]) -> Any:
    """Make an attempt; return what a script wants to know of it.

    Raises:
        TypeError: The operation returned a coroutine.
    """
    token = run.token
    if token is not None and run.attempts > 1 and token.cancelled:
        return REFUSED
    try:
        # No call stands between the look at the token and this one.
        run.result = operation()
    except Exception as failure:  # noqa: BLE001 - the run judges it
        return failure
    if run.result.__class__ is CoroutineType:
        run.culprit = run.name
        refuse_coroutine(run.name, run.result)
    return None


async def _attempt_async(run: Run, operation: Callable[[], Awaitable[Any]]) -> Any:
    """Make an attempt that may be cut; return what a script wants to know of it.

    Raises:
        TypeError: What the operation returned cannot be awaited.
    """
    cut = None
    if run.token is not None or run.deadline is not None or run.rules.attempt_timeout is not None:
        cut = cutting(run)
    if cut is not None:
        await cut.scope.__aenter__()
    refused = plain = False
    try:
        refused = run.is_refused()
        if not refused:
            awaitable = operation()
            plain = not is_awaitable(awaitable)
            run.result = None if plain else await awaitable
    except BaseException as failure:
        if cut is not None and cut.leave(failure):
            await cut.scope.settle()
        if run.cut is failure:
            return CUT
        if not isinstance(failure, Exception):
            raise
        return failure
    if cut is not None and cut.leave(None):
        await cut.scope.settle()
    if plain:
        run.culprit = run.name
        refuse_plain(run.name, awaitable)
    return REFUSED if refused else None


def _ended(run: Run, reason: StopReason) -> Any:
    run.end(reason)
    return result_of(run)
