"""The wait between two attempts, in threads and coroutines, by the clock or by a timer."""

from __future__ import annotations

import sys
import weakref
from functools import partial
from operator import attrgetter
from types import coroutine

from .. import _process
from .._sentinels import CLOSED
from .._validation import LARGEST
from ..clock import later
from ..waiting import NO_DEADLINE, checkpoint, loop_runs, park_coroutine, park_thread
from ._outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from ..channels import TimerLike
    from ._run import Run, SkippingClock

_IN_COROUTINES = "await retry_call_async(), async for, or a coroutine function"
_PACKAGE = __name__.partition(".")[0]


def warn_if_loop_runs(what: str, instead: str) -> None:
    """Warn, at the line of the user's code, that the event loop of this thread stands still."""
    if not loop_runs():
        return
    import warnings

    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    text = f"{what} blocks the event loop of this thread; use {instead}"
    warnings.warn(text, RuntimeWarning, level)


@coroutine  # not async: see perform()
def wait(run: Run) -> Generator[Any, Any, StopReason | None]:
    """Wait for the run's ``delay``; a cancel of its token ends the wait at once.

    A thread is blocked, and does not suspend. In a coroutine, a wait without a delay lets the loop
    run everything else that is ready. Returns why no further attempt follows.
    """
    run.failing_component = "the wait"
    try:
        latest = run.latest_start
        if latest is not None and later(run.clock.monotonic(), run.delay) > latest:
            return StopReason.MAX_ELAPSED_TIME
        if run.skipping is not None:
            _skip(run, run.skipping)
        elif run.options.timer is not None:
            yield from _wait_on_timer(run, run.options.timer)
        elif run.delay:
            yield from _wait_on_clock(run)
        if run.awaits and (run.skipping is not None or not run.delay):
            yield from checkpoint()
        return run.limit_reached()
    except Exception as failure:  # noqa: BLE001 - of the timer or the clock: raised at the end
        return run.fail(failure)


@coroutine
def _wait_on_clock(run: Run) -> Generator[Any, Any, None]:
    what, clock, token = f"a retry of {run.name}", run.clock, run.token
    if not run.awaits:
        warn_if_loop_runs(what, _IN_COROUTINES)
    monotonic = clock.monotonic
    began = monotonic()
    until = min(later(began, run.delay), LARGEST)
    if run.deadline is not None:
        until = min(until, run.deadline)  # notify and hooks may have taken long
    sources = () if token is None else token._wait_sets()
    look: Any = _its_limit if token is None else token._recheck
    while monotonic() < until and not (token is not None and token.cancelled):
        if run.awaits:
            yield from park_coroutine(clock, sources, look, until)
        else:
            park_thread(clock, what, "", sources, look, until)
    run.waited += monotonic() - began


_its_limit = attrgetter("limit")
"""What a waiter looks at that waits for its time only."""

_timers: dict[tuple[int, int], object] = {}
"""The timers in use, by id and process: two runs on one timer would receive each other's times."""


def _forget(key: tuple[int, int], claim: object) -> None:
    """Release a claim that a wait, interrupted, did not release."""
    if _timers.get(key) is claim:
        del _timers[key]


async def _wait_on_timer(run: Run, timer: TimerLike) -> None:
    from ..channels import block_on, select_async  # rarely needed

    what, token = f"a retry of {run.name}", run.token
    if not run.awaits:
        warn_if_loop_runs(what, _IN_COROUTINES)
    run.failing_component = "the timer"
    key, owner = (id(timer), _process.generation), {"the wait"}
    claim = weakref.ref(owner, partial(_forget, key))
    sources: tuple[Any, ...] = (timer,) if token is None else (timer, token)
    began, chosen, value = run.clock.monotonic(), None, None
    seconds = NO_DEADLINE if run.deadline is None else max(0.0, run.deadline - began)
    try:
        if _timers.setdefault(key, claim) is not claim:
            raise RuntimeError(f"{timer!r} already measures the wait of another run")
        timer.c._drop_items()  # of earlier waits
        timer.start(run.delay)
        try:
            if run.awaits:
                timeout = None if seconds == NO_DEADLINE else seconds
                chosen, value = await select_async(*sources, timeout=timeout)
            else:
                found = block_on((what, ""), sources, seconds)
                chosen, value = found.chosen, found.value
        except TimeoutError:
            pass  # the run then checks its deadline itself
        if chosen is timer and value is CLOSED:
            raise RuntimeError(f"the channel of {timer!r} is closed")
    finally:
        if _timers.get(key) is claim:
            try:
                timer.stop()  # before the release: the next run may start it at once
            finally:
                _timers.pop(key, None)
        run.waited += run.clock.monotonic() - began


def _skip(run: Run, clock: SkippingClock) -> None:
    """Count the wait as waited, up to the deadline of the token."""
    seconds = run.delay
    token = run.token
    if token is not None and token.deadline is not None:
        seconds = min(seconds, token.deadline - clock.monotonic())
    if seconds > 0.0 and not (token is not None and token.cancelled):
        clock.skipped = min(clock.skipped + seconds, LARGEST / 4)
        run.waited += seconds
