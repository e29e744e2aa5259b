"""The wait between two attempts, in threads and coroutines, by the clock or by a timer."""

from __future__ import annotations

from operator import attrgetter

from .. import _process
from .._sentinels import CLOSED
from .._validation import LARGEST
from ..clock import later
from ..waiting import NO_DEADLINE, checkpoint, park_coroutine, park_thread, warn_if_loop_runs
from ._limits import SkippingClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..channels import TimerLike
    from ._outcome import Ending
    from ._run import Run

_IN_COROUTINES = "await retry_call_async(), async for, or a coroutine function"


async def wait(run: Run) -> Ending | None:
    """Wait for the run's ``delay``, or for its token; return why no further attempt follows.

    In a coroutine, a wait without a delay lets the loop run everything else that is ready.
    """
    run.component = "the wait"
    delay, clock, timer = run.delay or 0.0, run.clock, run.options.timer
    ending = run.limits.reached_by(delay)  # the hooks may have taken long
    if ending is not None:
        return ending
    if isinstance(clock, SkippingClock):
        run.waited += clock.skip(delay, run.limits.token)
    elif delay or timer is not None:
        what, began = f"a retry of {run.name}", clock.monotonic()
        if not run.awaits:
            warn_if_loop_runs(what, _IN_COROUTINES)
        try:
            if timer is None:
                await _wait_on_clock(run, what, later(began, delay))
            else:
                run.component = "the timer"
                await _wait_on_timer(run, what, delay, timer)
        finally:
            run.waited += clock.monotonic() - began
        return run.limits.reached()
    if run.awaits:
        await checkpoint()
    return run.limits.reached()


async def _wait_on_clock(run: Run, what: str, until: float) -> None:
    clock, token, until = run.clock, run.limits.token, min(until, LARGEST)
    sources = () if token is None else token._wait_sets()
    look: Any = attrgetter("limit") if token is None else token._recheck  # None: time alone
    while clock.monotonic() < until and not (token is not None and token.cancelled):
        if run.awaits:
            await park_coroutine(clock, sources, look, until)
        else:
            park_thread(clock, what, "", sources, look, until)


_timers: dict[tuple[int, int], object] = {}
"""The timers in use, by id and process: two runs on one timer would receive each other's times."""


async def _wait_on_timer(run: Run, what: str, delay: float, timer: TimerLike) -> None:
    from ..channels import block_on, select_async  # rarely needed

    token, deadline = run.limits.token, run.limits.deadline
    key, claim = (id(timer), _process.generation), object()
    sources: tuple[Any, ...] = (timer,) if token is None else (timer, token)
    seconds = None if deadline is None else max(0.0, deadline - run.clock.monotonic())
    chosen = value = None
    try:
        if _timers.setdefault(key, claim) is not claim:
            raise RuntimeError(f"{timer!r} already measures the wait of another run")
        timer.c._drop_items()  # of earlier waits
        timer.start(delay)
        try:
            if run.awaits:
                chosen, value = await select_async(*sources, timeout=seconds)
            else:
                limit = NO_DEADLINE if seconds is None else seconds
                chosen, value = block_on((what, ""), sources, limit)
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
