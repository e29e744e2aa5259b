"""The steps of a retry around a call, in their order; every face of a retry makes them.

``enter()``, the call, ``leave()``; then, unless the run has ended, ``wait_for_next()`` and all of
it again. They are coroutine functions. A thread drives each to its end at once, as nothing in it
suspends there; see ``_drive``.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType

from .._error_chain import append_cause, set_link
from .._errors import BackoffTickerError, Cancelled, RejectedResult
from .._operation import answered, close_unawaited, is_awaitable
from .._sentinels import EMPTY
from .._validation import counted, safe_repr
from ..waiting import CHECKPOINT_EVERY, trio_runs
from ._failures import ASK_ON, classify, reconsidered, unmarked
from ._option_table import NO_FALLBACK
from ._outcome import Ending, StopReason
from ._run import SUCCESS, Run
from ._wait import wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._failures import Demand

_GENERATORS = (GeneratorType, AsyncGeneratorType)
_PREFIX = "gave up after "
_WITHOUT_FALLBACK = {StopReason.CANCELLED, StopReason.FAILED, StopReason.NOT_RETRIED}


async def enter(run: Run) -> None:
    """Enter what surrounds the attempt that begins, and call ``on_attempt``."""
    if run.ending is not None:  # the circuit breaker has failed
        return
    try:
        if run.options.around is not None:
            await _enter_around(run)
        await _call_hooks(run, "on_attempt")
        if run.attempts > 1 and run.limits.reached() is not None:  # the hooks may have taken long
            run.refuse()
    except Exception as failure:  # raised at the end
        run.attempts -= 1  # it is not made
        run.fail(failure)


async def leave(run: Run, error: Exception | None) -> bool:
    """Leave an attempt, and decide what follows; return whether ``wait_for_next()`` has work to do.

    ``error`` is what the operation raised; None: it has returned ``run.result``. If the run has an
    ``ending`` by now, the attempt was not made, or was cut.
    """
    run.attempt.end()  # type: ignore[union-attr]  # it has begun
    options = run.options
    if error is not None:
        is_marked = error.__cause__ is not None or isinstance(error, BackoffTickerError)
        run.error = unmarked(error) if is_marked and not options.is_off else error
    if options.is_watched:
        run.tell_circuit(error)
        await _leave_around(run, error)
    try:
        if run.ending is None:
            if error is None:
                demand = await _judge_result(run)
            else:
                demand = classify(options, error, was_cut=run.was_cut)
                if demand is ASK_ON or isinstance(demand, Ending):
                    demand = await reconsidered(run, error, demand)
            ending = demand if isinstance(demand, Ending) else run.plan(demand)
            if ending is None and options.budget is not None:
                ending = await pay(run)
            if ending is not None:
                run.end(ending)
    except Exception as failure:  # raised at the end
        run.fail(failure)
    if run.ending is not None:
        await _conclude(run)
        return False
    # A coroutine that never waits lets the event loop run now and then.
    is_turn = run.awaits and (run.attempts % CHECKPOINT_EVERY == 0 or trio_runs())
    return bool(run.delay or options.has_steps_between or is_turn)


async def wait_for_next(run: Run) -> None:
    """Tell that another attempt follows, and wait for its time."""
    options = run.options
    try:
        for notify in options.notify or ():
            run.component = "notify"
            await answered(notify(run.error, run.delay), "notify", awaits=run.awaits)
        if options.on_retry is not None:
            await _call_hooks(run, "on_retry")
        ending = await wait(run)
        if ending is not None:
            run.end(ending)
    except Exception as failure:  # raised at the end
        run.fail(failure)
    if run.ending is not None:
        await _conclude(run)


async def interrupted(run: Run, interrupt: BaseException) -> None:
    """End a run that an exception ends which is no ``Exception``; the caller raises it again."""
    try:
        run.tell_circuit(interrupt)
        await _leave_around(run, interrupt)
    finally:
        # Without hide(), for a finalizer may close a generator: CPython 3.11 crashes if that sets a
        # context variable in the middle of another set(). The next show() leaves out what stays.
        if isinstance(interrupt, GeneratorExit):
            run.is_shown = False
        run.end(Ending(StopReason.INTERRUPTED))


# The decision


async def _judge_result(run: Run) -> Demand:
    """Return what follows a result: the end of the run, or the policy, if ``until`` rejects it."""
    until = run.options.until
    if until is not None:
        if run.result is EMPTY:
            run.component = "a block without attempt.set_result()"
            raise RuntimeError("until needs attempt.set_result(value)")
        run.component = "until"
        if not await answered(until(run.result), "until", awaits=run.awaits):
            run.error = RejectedResult(run.result)
            return run.options.backoff
    return SUCCESS


async def pay(run: Any) -> Ending | None:
    """Have the budget pay for the next attempt; return why there is none."""
    budget = run.options.budget
    run.component = "the budget"
    if run.awaits and run.options.awaits_budget:
        await _ask_budget(run, budget)
    else:
        run.is_paid = budget.try_acquire()
    ending = run.limits.reached()  # the answer may have taken long
    if ending is None and not run.is_paid:
        ending = Ending(StopReason.BUDGET, f"nothing left in {safe_repr(budget)}")
    return ending


async def _ask_budget(run: Any, budget: Any) -> None:
    """Await the answer of a budget; a cancel or ``timeout`` ends that, and nothing is paid."""
    limits = run.limits
    if limits.token is None and limits.deadline is None:
        run.is_paid = await budget.try_acquire_async()
        return
    token = limits.derived(run.clock, limits.token, None)
    try:
        async with token.scope():
            run.is_paid = await budget.try_acquire_async()
    except Cancelled:
        if not token.cancelled:
            raise  # an error of the budget
    finally:
        token.cancel()


# The end


async def _conclude(run: Run) -> None:
    """Call the hooks of the end, and set ``run.final``, the error to raise; else ``run.result``."""
    try:
        if run.ending is SUCCESS:
            if run.options.budget is not None:
                run.component = "the budget"
                run.options.budget.success()
            await _call_hooks(run, "on_success")
    except Exception as failure:  # raised at the end
        run.fail(failure)
    if run.ending is SUCCESS:
        return
    try:
        if not is_untouched(run):
            await _call_hooks(run, "on_give_up")
    except Exception as failure:  # raised at the end
        run.fail(failure)
    await conclude(run)


async def conclude(run: Any) -> None:
    """Set ``run.final``, the error to raise for a run without a result, or ``run.result``.

    The result is that of ``fallback``. ``run`` is a ``Run`` or a hedged call that has ended.
    """
    ending, last = run.ending, run.error
    if is_untouched(run) or ending.reason is StopReason.INTERRUPTED:
        run.final = last
        return
    run.final = final = last if ending.error is None else ending.error
    ending.error = None  # its traceback may refer to this frame: a reference cycle
    try:
        if last is not None and final is not last:
            if ending.reason is StopReason.FAILED:
                append_cause(final, last)
            else:
                set_link(final, "__cause__", last)
        if run.options.note is not False:
            made = counted(run.attempts, "attempt")
            _annotate(
                final, f"{_PREFIX}{made} in {round(run.ended - run.began, 3)} s: {ending.why}"
            )
        if run.options.fallback is not NO_FALLBACK and ending.reason not in _WITHOUT_FALLBACK:
            run.result = await _answer_of(run.options.fallback, run)
            run.final = None
    except Exception as failure:  # raised by the caller
        append_cause(failure, final)
        run.final = failure
    finally:
        del final, last  # a traceback refers to this frame: a reference cycle


def is_untouched(run: Any) -> bool:
    """Whether the error of the first attempt passes unchanged: ``on`` does not retry it."""
    return run.ending.reason is StopReason.NOT_RETRIED and run.attempts == 1


async def _answer_of(fallback: Any, run: Any) -> Any:
    """Return what ``fallback`` is, or returns."""
    if not callable(fallback):
        return fallback
    result = fallback(run.outcome())
    if isinstance(result, CoroutineType) and not run.awaits:
        close_unawaited(result)
        raise TypeError("fallback returned a coroutine, which only a coroutine can await")
    return (await result) if run.awaits and is_awaitable(result) else result


def raise_final(run: Any, ended_by: BaseException | None = None) -> None:
    """Raise ``run.final``, the error of a run, once, with the context that it has.

    But not ``ended_by``, which has ended the block of a loop and is raised anyway.
    """
    final, run.final = run.final, None
    if final is None or final is ended_by:
        return
    context = final.__context__
    try:
        raise final
    finally:
        # `raise` replaces it by the error that is being handled.
        if context is not None or ended_by is not None:
            set_link(final, "__context__", context)
        del final, context, ended_by  # a traceback refers to this frame: a reference cycle


def _annotate(error: BaseException, note: str) -> None:
    """Add ``note`` to ``error``, replacing the note that another run left there."""
    try:
        notes = getattr(error, "__notes__", None)
        kept = [
            old
            for old in (notes if isinstance(notes, list) else ())
            if not (isinstance(old, str) and old.startswith(_PREFIX) and " attempt" in old[:40])
        ]
        # Not add_note(): a frozen exception class forbids attributes.
        BaseException.__setattr__(error, "__notes__", [*kept, note])
    except Exception:  # noqa: S110 - an error that takes no notes is raised without one
        pass


# Users' functions


async def _call_hooks(run: Run, name: str) -> None:
    hooks = getattr(run.options, name)
    if hooks is None:
        return
    run.component = name
    outcome = run.outcome()
    for hook in hooks:
        await answered(hook(outcome), name, awaits=run.awaits)


async def _enter_around(run: Run) -> None:
    """Enter the context managers around an attempt, and keep how each is left."""
    run.component = "around"
    run.managers = managers = []
    outcome = run.outcome()
    for around in run.options.around:
        manager = around(outcome)
        is_async = hasattr(manager, "__aenter__") and hasattr(manager, "__aexit__")
        is_plain = hasattr(manager, "__enter__") and hasattr(manager, "__exit__")
        if not is_async and not is_plain:
            hint = ": is @contextmanager missing?" if isinstance(manager, _GENERATORS) else ""
            raise TypeError(f"around must return a context manager, not {safe_repr(manager)}{hint}")
        if run.awaits and is_async:
            await manager.__aenter__()
            managers.append(manager.__aexit__)
        elif is_plain:
            manager.__enter__()
            managers.append(manager.__exit__)
        else:
            raise TypeError(
                "around returned an asynchronous context manager: only a coroutine can enter it, "
                "and in a loop only `async with attempt:`"
            )


async def _leave_around(run: Run, error: BaseException | None) -> None:
    """Leave the context managers around an attempt, each once; none can swallow its error."""
    if error is None and run.ending is not None:
        error = run.ending.error  # the attempt was not made, or was cut
    told_of = (None, None, None) if error is None else (type(error), error, error.__traceback__)
    while run.managers:
        exit_manager = run.managers[-1]
        run.component = "around"
        try:
            del run.managers[-1]  # type: ignore[attr-defined]  # it is a list
            await answered(exit_manager(*told_of), "around", awaits=run.awaits)
        except Exception as failure:  # raised at the end
            run.fail(failure)
        except BaseException as interrupt:
            await _leave_around(run, interrupt)  # those outside of it
            raise
