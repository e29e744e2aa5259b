"""The watchdog of a virtual clock: it judges by real time what the kernel cannot know.

Whether a participant waits for another thread, is stuck, or takes too long.
"""

from __future__ import annotations

from ._errors import SettleTimeout, VirtualDeadlockError
from ._kernel import Kernel, kernels
from ._participants import State, waiting_for_real
from ._real_time import (
    StallDetector,
    note_activity,
    others_are_active,
    waits_for_a_thread,
    works_inside_idle,
)
from ._reports import stuck


class Watchdog:
    """Looks at the participants of one clock every 10 ms."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._stall_detector = StallDetector()

    def look(self, real: float) -> None:
        """End waits that would last forever; called every 10 ms with the real time in seconds."""
        kernel = self._kernel
        driver = kernel.driver
        kernel.interrupt.remind()
        if not kernel.firing:
            kernel.commands.callbacks.end(if_unused=True)
        running = () if kernel.firing else kernel.running
        if self._stall_detector.is_stalled(real, kernel.turns_given, running):
            self._share_turn()
        driver_idles = self._driver_idles()
        driver_runs = driver in kernel.running
        for one in [*kernel.external, *([driver] if driver_runs else ())]:
            note_activity(one)
        driver_works = (driver_runs or driver_idles) and driver.active_looks > 0
        if driver_works or any(map(works_inside_idle, kernel.external)):
            kernel.progress += 1
        somebody_waits = kernel.step is not None or driver.state is State.PARKED or driver_idles
        if not somebody_waits and not self._driver_delays_others():
            kernel.settle_timer.restart()
        elif kernel.settle_timer.has_expired(
            real, kernel.now, kernel.progress, held=bool(kernel.holds)
        ):
            self._give_up()

    def _driver_delays_others(self) -> bool:
        """Whether the driver runs, with auto-advance, while others wait for time to go on."""
        kernel = self._kernel
        others = len(kernel.members) > 1 or kernel.timers.first() is not None
        return bool(kernel.auto) and others and kernel.driver in kernel.running

    def _driver_idles(self) -> bool:
        """Whether the driver is inside ``idle()``, with auto-advance; not inside ``external()``."""
        kernel = self._kernel
        waits = kernel.driver.state is State.EXTERNAL and not bool(kernel.holds)
        return waits and bool(kernel.auto) and not kernel.closing

    def _share_turn(self) -> None:
        """Let others go on: those that run may wait for a lock that one of these holds."""
        kernel = self._kernel
        for one in list(kernel.running):
            # One rule for every thread, whoever wrote it: it holds no time up while it waits for
            # another thread. The wait of the driver has its own time limit.
            waits_really = one is kernel.driver or one.ident in waiting_for_real
            if not waits_really and waits_for_a_thread(one.native):
                kernel.set_aside(one)
        if kernel.queue:
            kernel.run_next()
            return
        if kernel.horizon() is None:
            return
        # None is queued. A participant whose timer is due now may hold the lock, so that timer
        # fires although others run.
        for timer in kernel.timers.pending():
            if timer.due > kernel.now:
                break
            if timer.sleeper is not None:
                kernel.fire(timer)
                kernel.run_next()
                break

    def _give_up(self) -> None:
        """Fail the step, or the wait of the driver, that has taken too long."""
        kernel = self._kernel
        driver = kernel.driver
        if kernel.step is not None:
            kernel.end_step(SettleTimeout(self._text_of_stuck(kernel.step.what)))
        elif driver.state is not State.PARKED:
            if not others_are_active() and not self._driver_waits_elsewhere():
                error: Exception = (
                    VirtualDeadlockError(kernel.text_of_deadlock())
                    if driver.state is State.EXTERNAL and not self._is_held_up()
                    else SettleTimeout(self._text_of_stuck("auto_advance()"))
                )
                kernel.interrupt.send(driver.ident, error)
        elif self._is_held_up():
            text = self._text_of_stuck(f"{driver.name}: {driver.what}")
            kernel.end_wait(driver, error=SettleTimeout(text))
            if kernel.firing:  # its callback blocks, and nobody gets a turn meanwhile
                kernel.give_turns()
        elif kernel.auto:
            kernel.break_deadlock()
        else:
            kernel.end_wait_of_driver()

    def _text_of_stuck(self, what: str) -> str:
        kernel = self._kernel
        timeout = kernel.settle_timer.limit(held=bool(kernel.holds))
        holds = [f"time is held by {what}" for what in kernel.holds.values()]
        holds += [f"{name}, tracked, was not called yet" for name in kernel.expected.values()]
        return stuck(what, timeout, kernel.now, kernel.members, holds)

    def _is_held_up(self) -> bool:
        """Whether a participant may still act, or auto-advance could still fire a timer."""
        kernel = self._kernel
        held = kernel.holds or kernel.expected
        if kernel.running or kernel.queue or kernel.firing or held:
            return True
        timer = kernel.timers.first() if kernel.auto else None
        return (timer is not None and timer.due <= kernel.until) or any(
            map(works_inside_idle, kernel.external)
        )

    def _driver_waits_elsewhere(self) -> bool:
        """Whether the driver's thread waits for another clock, which has its own timeout."""
        kernel = self._kernel
        try:
            others = [one for one in kernels if one is not kernel and not one.closed]
        except RuntimeError:
            return True  # another thread has just made one
        return any(
            one.driver.ident == kernel.driver.ident
            and (one.step is not None or one.driver.state is not State.RUNNING)
            for one in others
        )
