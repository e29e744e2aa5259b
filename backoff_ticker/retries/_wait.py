"""The wait between two attempts, in threads and coroutines, by the clock or by a timer."""

from __future__ import annotations

import sys
from operator import attrgetter

from .. import _process
from .._sentinels import CLOSED
from .._validation import LARGEST
from ..clock import later
from ..waiting import NO_DEADLINE, checkpoint, loop_runs, park_coroutine, park_thread
from ._no_wait import SkippingClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..channels import TimerLike
    from ._outcome import Ending
    from ._run import Run

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


async def wait(run: Run) -> Ending | None:
    """Wait for the run's ``delay``; a cancel of its token ends the wait at once.

    A thread is blocked, and does not suspend. In a coroutine, a wait without a delay lets the loop
    run everything else that is ready, now and then. Returns why no further attempt follows.
    """
    run.component = "the wait"
    delay = run.delay or 0.0
    latest, clock = run.limits.latest_start, run.clock
    if latest is not None and later(clock.monotonic(), delay) > latest:
        return run.limits.reached_by(clock.monotonic(), delay)  # the hooks may have taken long
    if isinstance(clock, SkippingClock):
        run.waited += clock.skip(delay, run.limits.token)
        if run.awaits:
            await checkpoint()
    elif run.options.timer is not None:
        await _wait_on_timer(run, delay, run.options.timer)
    elif delay:
        await _wait_on_clock(run, delay)
    elif run.awaits:
        await checkpoint()
    return run.limit_reached()


async def _wait_on_clock(run: Run, delay: float) -> None:
    what, clock, token = f"a retry of {run.name}", run.clock, run.limits.token
    if not run.awaits:
        warn_if_loop_runs(what, _IN_COROUTINES)
    began = clock.monotonic()
    until = min(later(began, delay), LARGEST)
    if run.limits.deadline is not None:
        until = min(until, run.limits.deadline)  # notify and hooks may have taken long
    sources = () if token is None else token._wait_sets()
    look: Any = attrgetter("limit") if token is None else token._recheck  # its time only
    while clock.monotonic() < until and not (token is not None and token.cancelled):
        if run.awaits:
            await park_coroutine(clock, sources, look, until)
        else:
            park_thread(clock, what, "", sources, look, until)
    run.waited += clock.monotonic() - began


_timers: dict[tuple[int, int], object] = {}
"""The timers in use, by id and process: two runs on one timer would receive each other's times."""


async def _wait_on_timer(run: Run, delay: float, timer: TimerLike) -> None:
    from ..channels import block_on, select_async  # rarely needed

    what, token, deadline = f"a retry of {run.name}", run.limits.token, run.limits.deadline
    if not run.awaits:
        warn_if_loop_runs(what, _IN_COROUTINES)
    run.component = "the timer"
    key, claim = (id(timer), _process.generation), object()
    sources: tuple[Any, ...] = (timer,) if token is None else (timer, token)
    began, chosen, value = run.clock.monotonic(), None, None
    seconds = NO_DEADLINE if deadline is None else max(0.0, deadline - began)
    try:
        if _timers.setdefault(key, claim) is not claim:
            raise RuntimeError(f"{timer!r} already measures the wait of another run")
        timer.c._drop_items()  # of earlier waits
        timer.start(delay)
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
        try:
            if _timers.get(key) is claim:
                timer.stop()  # before the release: the next run may start it at once
        finally:
            if _timers.get(key) is claim:
                del _timers[key]
        run.waited += run.clock.monotonic() - began
