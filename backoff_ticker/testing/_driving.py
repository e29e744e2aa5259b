"""How a thread moves the time of a virtual clock, in steps or by auto-advance, and closes it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from .._process import after_fork
from ..clock import current_clocks
from ._errors import ClockLeakError, ClockUsageError, SettleTimeout, UntrackedLoopError
from ._kernel import Kernel, Step, entry, kernels
from ._other_clocks import SYSTEM_CLOCK_PATCHES
from ._participants import Participant, State
from ._reports import leaks
from ._thread_side import counted, wait_for_turn
from .standard_library._loops import HOW_TO_DRIVE, LOOP_PATCHES, foreign_loop_patches, loop_kernel
from .standard_library._patches import Patches
from .standard_library._pools import POOL_PATCHES
from .standard_library._threads import THREAD_PATCHES
from .standard_library._time_module import time_patched, time_patches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .standard_library._patches import Patch


def check_no_loop_runs_here(what: str, instead: str) -> None:
    if asyncio._get_running_loop() is not None:
        raise ClockUsageError(f"{what} would block this event loop forever; use {instead}")


def take_step(kernel: Kernel, what: str, target: int | None) -> int:
    check_no_loop_runs_here(what, "await clock.advance_async()")
    kernel.check_may_drive(what)
    return wait_for_step(kernel, what, target)


def wait_for_step(kernel: Kernel, what: str, target: int | None) -> int:
    """Wait until time has reached ``target``, in nanoseconds, and every participant waits.

    Return how many timers have fired; with None, none may. ``what`` names the step in reports.
    """
    driver = kernel.member_here() or Participant(what, counted=False)
    step = Step(what, target)
    kernel.commands.start()
    wait_for_turn(kernel, driver, lambda: kernel.post(kernel.begin_step, step, driver))
    return step.outcome()


async def wait_for_step_async(kernel: Kernel, what: str, target: int) -> int:
    """Do what ``wait_for_step()`` does, in a coroutine on an event loop of the clock."""
    loop = asyncio.get_running_loop()
    if loop_kernel(loop) is not kernel:
        raise UntrackedLoopError(
            f"{what} in {loop!r}, which this clock does not drive: {HOW_TO_DRIVE}"
        )
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    step = Step(what, target, lambda: loop.call_soon_threadsafe(finish))
    kernel.post(kernel.begin_step, step)
    try:
        await done
    finally:
        kernel.post(kernel.withdraw_step, step)
    return step.outcome()


# Inside the block of a clock

_patches = Patches()
_PATCHES: list[Patch] = [*THREAD_PATCHES, *POOL_PATCHES, *LOOP_PATCHES, *SYSTEM_CLOCK_PATCHES]


def _forget_clocks() -> None:
    """In a forked child: belong to no clock, because the parent's participants do not exist."""
    time_patches.forget_users()
    _patches.forget_users()
    current_clocks.clear()
    for kernel in kernels:
        kernel.forget_participants()


after_fork(_forget_clocks)


@contextmanager
def installed(kernel: Kernel) -> Iterator[None]:
    """Make the kernel's clock the current one here, and patch the standard library."""
    if kernel.entered:
        yield
        return
    patches = chain(_PATCHES, foreign_loop_patches(_patches.apply))
    current = entry(current_clocks, kernel.clock)
    with _patches.installed(patches), current, time_patched(kernel):
        yield


@contextmanager
def auto_advance(kernel: Kernel) -> Iterator[None]:
    check_no_loop_runs_here("auto_advance()", "auto=True for the clock")
    kernel.check_may_drive("auto_advance()")
    driver = kernel.driver
    if driver.ident != threading.get_ident() and (kernel.entered or driver.counted):
        raise ClockUsageError("only the thread that entered a clock can drive it")
    driver.note_thread()
    key = object()
    with counted(kernel, driver), kernel.interrupt.armed():
        try:
            kernel.post(kernel.auto.setdefault, key)
            yield
        finally:
            kernel.post(kernel.auto.pop, key, None)
    _raise_errors(kernel)


def _raise_errors(kernel: Kernel) -> None:
    """Raise the errors of callbacks that no step could raise."""
    errors = kernel.commands.errors.copy()
    del kernel.commands.errors[: len(errors)]
    for other in errors[1:]:
        errors[0].add_note(f"another callback raised {other!r}")
    if errors:
        raise errors[0]


def close(kernel: Kernel, *, allow_daemons: bool) -> None:
    closer = kernel.member_here()
    if closer is None or closer is kernel.driver:
        try:
            wait_for_step(kernel, "close()", None)
        except (SettleTimeout, ClockUsageError):
            kernel.settle_timer.hurry()  # participants that did not settle are leaks
    mine = {kernel.driver, closer}
    others = [one for one in kernel.query(lambda: list(kernel.members)) if one not in mine]
    may_stay = {one for one in others if one.daemon and (allow_daemons or one.waits_for_work)}
    left = [one for one in others if one not in may_stay]
    message = leaks(left)
    # Daemons may go on with what does not notice that the clock is closed.
    mine |= {one for one in may_stay if one.waits_for_work or one.state is State.EXTERNAL}
    for trap in list(kernel.traps):
        trap.close()
    kernel.post(kernel.abort_waits)
    timeout = kernel.settle_timer.seconds
    kernel.commands.wait_for(lambda: not (kernel.members.keys() - mine), timeout)
    kernel.closed = True
    for loop in kernel.loops:
        loop.detach()
    errors = kernel.commands.errors
    errors += [error for retrieve in kernel.unretrieved if (error := retrieve()) is not None]
    if left:
        leak = ClockLeakError(message)
        for error in errors[1:]:
            leak.add_note(f"another error was {error!r}")
        raise leak from (errors[0] if errors else None)
    _raise_errors(kernel)
