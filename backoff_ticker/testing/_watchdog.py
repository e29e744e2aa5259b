"""The watchdog of a virtual clock: it judges by real time who waits for what, and for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._commands import LOOK_INTERVAL
from ._errors import SettleTimeout, VirtualDeadlockError
from ._participants import State
from ._real_time import (
    is_active,
    note_activity,
    others_are_active,
    waits_for_a_thread,
    works_inside_idle,
)
from ._reports import at, frames_of, place_of

if TYPE_CHECKING:
    from ._kernel import Kernel

_STALLED_AFTER = 0.05  # seconds without any thread computing; then another one gets a turn, too
_WEIGHT_IF_UNKNOWN = 0.05  # of a second in which nothing can be judged, as on a busy machine
_LATE = 2.0 * LOOK_INTERVAL  # between looks: another thread has the interpreter or processor


class Watchdog:
    """Looks at the participants of one clock every 10 ms."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._looked_at = 0.0
        self._turns_given = 0
        self._stalled_for = 0.0

    def look(self, real: float) -> None:
        kernel, driver = self._kernel, self._kernel.driver
        kernel.interrupt.remind()
        if self._is_stalled(real):
            self._share_turn()
        held, auto = bool(kernel.holds), bool(kernel.auto)
        idles = driver.state is State.EXTERNAL and auto and not held and not kernel.closing
        runs = driver in kernel.running
        for one in [*kernel.external, *([driver] if runs else ())]:
            note_activity(one)
        works = (runs or idles) and driver.active_looks > 0
        if works or any(map(works_inside_idle, kernel.external)):
            kernel.progress += 1
        others = len(kernel.members) > 1 or kernel.timers.first() is not None
        waits = idles or driver.state is State.PARKED or (runs and auto and others)
        if kernel.step is None and not waits:
            kernel.settle_timer.restart()
        elif kernel.settle_timer.has_expired(real, kernel.now, kernel.progress, held=held):
            self._give_up()

    def _is_stalled(self, real: float) -> bool:
        """Whether those that have a turn have kept it for long and done nothing."""
        kernel = self._kernel
        running = () if kernel.firing else kernel.running
        elapsed, self._looked_at = real - self._looked_at, real
        new = kernel.turns_given != self._turns_given or not running
        if new or any(is_active(one.native) for one in running):
            self._turns_given, self._stalled_for = kernel.turns_given, 0.0
            return False
        # This thread needs the interpreter as they do: if it is late, no judgement is possible.
        begun = all(one.ident is not None for one in running)
        known = begun and elapsed < _LATE and not others_are_active()
        self._stalled_for += elapsed if known else elapsed * _WEIGHT_IF_UNKNOWN
        return self._stalled_for >= _STALLED_AFTER

    def _share_turn(self) -> None:
        """Let others go on: those that run may wait for a lock that one of these holds."""
        kernel = self._kernel
        for one in list(kernel.running):
            # One rule for every thread, whoever wrote it. The driver's wait has its own time limit.
            if one is not kernel.driver and waits_for_a_thread(one):
                kernel.pause(one, "another thread")
                one.aside = True
        if kernel.queue:
            kernel.run_next()

    def _give_up(self) -> None:
        """Fail the step, or the wait of the driver, that has taken too long."""
        kernel, driver = self._kernel, self._kernel.driver
        if kernel.step is not None:
            kernel.end_step(self._stuck(kernel.step.what))
        elif driver.state is not State.PARKED:
            if not others_are_active():
                kernel.interrupt.send(driver.ident, self._error_of_driver())
        elif self._is_held_up():
            kernel.end_wait(driver, error=self._stuck(f"{driver.name}: {driver.what}"))
            if kernel.firing:  # its callback blocks, and nobody gets a turn meanwhile
                kernel.give_turns()
        else:
            kernel.end_waits()

    def _error_of_driver(self) -> Exception:
        if self._kernel.driver.state is State.EXTERNAL and not self._is_held_up():
            return VirtualDeadlockError(self._kernel.text_of_deadlock())
        return self._stuck("auto_advance()")

    def _stuck(self, what: str) -> SettleTimeout:
        """Return the error of ``what``, a step or wait, that has taken too long."""
        kernel, active = self._kernel, {State.RUNNING, State.QUEUED}
        busy = [one for one in kernel.members if one.state in active or works_inside_idle(one)]
        who = [f"thread {one.name!r}{place_of(frames_of(one.ident))}" for one in busy]
        who += [f"time is held by {what}" for what in kernel.holds.values()]
        who += [f"{name}, tracked, was not called yet" for name in kernel.expected.values()]
        timeout = kernel.settle_timer.limit(held=bool(kernel.holds))
        return SettleTimeout(
            f"{what} gave up after {timeout:g} s of real time {at(kernel.now)}: {len(busy)} of "
            f"{len(kernel.members)} participants never waited on this clock: "
            f"{'; '.join(who) or 'none'}. Use a wait of this library, or put clock.idle(...) "
            "around a wait for another participant, clock.external(...) around a wait for "
            "something real. VirtualClock(patch_time=True) puts time.sleep() and waits in "
            "threading and queue on the clock."
        )

    def _is_held_up(self) -> bool:
        """Whether a participant may still act, or auto-advance could still fire a timer."""
        kernel = self._kernel
        timer = kernel.timers.first() if kernel.auto else None
        return (
            bool(kernel.running or kernel.queue or kernel.firing or kernel.holds or kernel.expected)
            or (timer is not None and timer.due <= kernel.until)
            or any(map(works_inside_idle, kernel.external))
        )
