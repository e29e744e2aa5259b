"""The one rule of a virtual clock: nobody runs, so time goes on to what is due next.

Invariants:
    * Time moves only while no counted participant runs or is queued, nothing holds time still and
      no callback is being called; and then no further than the horizon: that of the step which
      somebody waits for, infinity while time advances by itself, else none.
    * Callbacks are called without the lock, one after the other, each at its own time.
"""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ._alarm import Alarm
from ._errors import ClockUsageError, SettleTimeout, Unwind, VirtualDeadlockError
from ._kept_turn import KeptTurn
from ._nanoseconds import in_seconds
from ._outside import loops_with_news, wait_for_idle
from ._participant import Participant, State
from ._patience import Patience
from ._reports import deadlock, driver_waits, stuck
from ._thread_states import Activity, others_are_active
from ._waits import Waits
from ._watch import Watch

if TYPE_CHECKING:
    from ._step import Step
    from ._tasks import Task
    from ._timers import VirtualTimer

_STALLS = 8
"""How often at one time the driver is told that nothing can end its wait, before it is ended."""

kernels: WeakSet[Kernel] = WeakSet()
"""All that there are."""


class Kernel(Waits):
    """Moves the time of a virtual clock.

    Attributes:
        closed: Whether the clock is closed.
        loop_drivers: What drives event loops by this clock.
        holds: Why time is held still, for however long.
        failed: Tasks whose functions have raised.
        alarm: Reaches the thread that drives the clock where no wait on it can.
        promises: Which participants are to come; time stands still, but not for ever.
        patience: For how long it waits, in real time, for who does not wait on it.
        watch: Has real time looked at, once there is a participant.
    """

    def __init__(
        self,
        start: int,
        driver: Participant,
        *,
        strict: bool,
        one_at_a_time: bool,
        settle_timeout: float,
    ) -> None:
        super().__init__(start, driver, strict=strict, one_at_a_time=one_at_a_time)
        self.closed: bool = False
        self.loop_drivers: list[Any] = []
        self.holds: dict[object, str] = {}
        self.promises: dict[object, str] = {}
        self.failed: list[Task[Any]] = []
        self.alarm: Alarm = Alarm()
        self.patience: Patience = Patience(settle_timeout, start)
        self.watch: Watch = Watch(self)
        self._auto = 0
        self._step: Step | None = None
        self._kept_turn = KeptTurn()
        self._driver_activity = Activity()
        kernels.add(self)

    def enter_new(self, participant: Participant) -> None:
        """Count a participant from now on; its thread waits for its turn."""
        self.watch.begin()
        self.post(self.enter, participant)

    # Operations

    def hold(self, key: object, why: str) -> None:
        """Hold time still."""
        self.holds[key] = why

    def release(self, key: object) -> None:
        """Let it go on."""
        self.holds.pop(key, None)

    def promise(self, key: object, name: str) -> None:
        """Wait for a participant that is to come."""
        self.promises[key] = name

    def keep(self, key: object) -> None:
        """Wait for it no more: it has come."""
        self.promises.pop(key, None)

    def begin_step(self, step: Step) -> None:
        """Begin a step."""
        if self._step is None:
            self._step = step
            self.patience.begin_anew()
            if step.participant is not None:
                self.pause(step.participant, State.DRIVING, "a step")
        else:
            step.error = ClockUsageError(
                "this clock is being advanced already: one step at a time, in one thread"
            )
            self._conclude(step)

    def withdraw_step(self, step: Step) -> None:
        """Give up a step, if it is not done."""
        if self._step is step:
            self._step = None
            self._conclude(step)

    def _conclude(self, step: Step) -> None:
        if step.participant is not None:
            self.resume(step.participant)  # before time can move on without it
        step.finish()

    def change_auto(self, change: int) -> None:
        """Count the blocks, one inside another, in which time advances by itself."""
        self._auto += change

    def close(self) -> None:
        """Break off every wait, now and from now on."""
        self.break_off()
        self._end_step(ClockUsageError("the clock was closed meanwhile"))
        for participant in [*self.members, *self.guests]:
            if participant.state is State.PARKED:
                self._ready(participant, error=Unwind())

    def forget_participants(self) -> None:
        """Be closed, in a forked child: nobody is there but the thread that forked."""
        self.closed = True
        self.break_off()
        self._auto = 0
        self._step = None
        self.driver.counted = False
        self.driver.state = State.RUNNING
        self.clear()

    def _after_callback(self, error: BaseException | None) -> None:
        self._firing = False
        if error is None:
            return
        if self._step is None:
            self.errors.append(error)
        else:
            self._end_step(error)

    # The rule

    def _dispatch(self) -> None:
        """Let run who may run, or let time go on."""
        while not self._firing:
            while self._queue and not (self._one_at_a_time and self._running):
                self._run_next()
            if self._running or self.holds or self.promises or self._inbox:
                break
            timer, horizon = self.timers.first(), self._horizon()
            if self.outside and not self._outside_has_no_news(horizon):
                if self._queue:
                    continue
                break
            if timer is None or horizon is None or timer.due > horizon:
                if not self._come_to_rest():
                    break
                continue
            self.timers.pop()
            target = timer.take()
            if target is None:
                continue  # cancelled in this very moment: time does not move for it
            self._reach(timer)
            if not isinstance(target, Participant):
                self._firing = True
                self._callbacks.append(target)
                return
            self._ready(target, timed_out=True)

    def _outside_has_no_news(self, horizon: float | None) -> bool:
        """Whether nobody who waits for what no clock knows has it, or is about to come back."""
        if self._step is None and horizon is None and self.driver.state is not State.PARKED:
            return True  # nothing would move now
        loops = loops_with_news(self.outside)
        for loop in loops:
            self._ready(loop)
        idle = [one for one in self.outside if one.state is State.AWAY]
        if idle and not loops and self._is_about_to_act(idle):
            self.watch.ring()  # it will look in place of this thread
            return False
        return not loops and not wait_for_idle(idle, self._somebody_came)

    def _is_about_to_act(self, idle: list[Participant]) -> bool:
        """Whether this thread has yet to find out that it must wait, or to use what it got."""
        ident = threading.get_ident()
        if any(one.ident == ident for one in idle):
            return True
        return ident not in self.by_ident and ident not in (self.driver.ident, self.watch.ident)

    def _somebody_came(self) -> bool:
        return any(operation != self.look for operation, *_ in list(self._inbox))

    def _reach(self, timer: VirtualTimer) -> None:
        self._move(timer.due, timer.when)
        if self._step is not None:
            self._step.fired += 1

    def _horizon(self) -> float | None:
        """Return how far time may go on, in nanoseconds; None: nothing may even fire."""
        if self._step is not None:
            return self._step.target
        return inf if self._auto and not self.closing else None

    def _come_to_rest(self) -> bool:
        """End the step, or the waits that nothing would end; return whether there were any."""
        step = self._step
        if step is not None:
            if step.target is not None:
                self._move(step.target, in_seconds(step.target))
            self._end_step(None)
            return True
        if self.outside or any(one.state is State.HELD for one in self.members):
            return False  # something outside may still come: the watch decides
        if self._auto and not self.closing:
            return self._break_deadlock([one for one in self.members if one.state is State.PARKED])
        return self._end_wait_of_driver()

    def _end_step(self, error: BaseException | None) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.error = error
            self._conclude(step)

    def _break_deadlock(self, waiting: list[Participant]) -> bool:
        """Have the waits of all raise; return whether there are any."""
        message = deadlock(self)
        # Who was told before, in vain, is ended; those who wait for it go on.
        stubborn = [one for one in waiting if one.stalled_at == self.now]
        ended = [one for one in stubborn if one is not self.driver]
        for participant in ended or waiting:
            participant.stalls = participant.stalls + 1 if participant in stubborn else 1
            participant.stalled_at = self.now
            if participant in ended or participant.stalls > _STALLS:
                error: BaseException = Unwind(message)
            else:
                error = VirtualDeadlockError(message)
            self._ready(participant, error=error)
        return bool(waiting)

    def _end_wait_of_driver(self) -> bool:
        """End the wait of a driver by hand, as one that is refused or gives up, if it waits."""
        driver = self.driver
        if driver.state is not State.PARKED or self.closing:
            return False
        parker: Any = driver.parker
        if parker is not None and parker.gives_up:
            self._ready(driver, timed_out=True)
            return True
        self._ready(driver, error=ClockUsageError(driver_waits(self)))
        return True

    # What only real time tells

    def awaited(self) -> set[Participant]:
        """Return the participants, but for those who were waited for in vain."""
        return self.members.keys() - self.patience.hopeless(self.now, self.members)

    def look(self, real: float) -> None:
        """See to it that nobody waits for ever; called by the watch, in real seconds."""
        running = () if self._firing else self._running
        if self._kept_turn.look(real, self.turns_given, running):
            self._share_turn()
        if self.driver in self._running and self._driver_activity.has_changed(self.driver.native):
            self.note_progress()
        waited = self._step is not None or self.driver.state is State.PARKED
        if not waited and not self._driver_holds_time():
            self.patience.begin_anew()
        elif self.patience.is_over(
            real, self.now, self.progress, self.members, held=bool(self.holds)
        ):
            self._give_up()

    def _driver_holds_time(self) -> bool:
        """Whether the driver runs, by itself, while others wait for time to go on."""
        others = len(self.members) > 1 or self.timers.first() is not None
        return self._auto > 0 and others and self.driver in self._running

    def _share_turn(self) -> None:
        """Let the next one run, too: who runs may wait for a lock that it holds."""
        if self._queue:
            self._run_next()
            while self.closing and self._queue:
                self._run_next()  # all are to end, and none waits for another
            return
        if self._horizon() is None:
            return
        for timer in self.timers.pending():
            target = timer.sleeper
            if timer.due > self.now:
                break
            if target is not None and timer.cancel():
                self._reach(timer)
                self._ready(target, timed_out=True)
                self._run_next()
                break

    def _give_up(self) -> None:
        """Fail the step, or the wait of the driver, that has taken too long."""
        driver = self.driver
        if self._step is not None:
            self._end_step(SettleTimeout(stuck(self, self._step.what)))
        elif driver.state is not State.PARKED:
            if not others_are_active() and not self._waits_elsewhere(driver):
                self.alarm.ring(driver.ident, SettleTimeout(stuck(self, "auto_advance()")))
            return
        elif self._is_held_up():
            what = f"{driver.name}: {driver.what}"
            self._ready(driver, error=SettleTimeout(stuck(self, what)))
        elif self._auto:
            self._ready(driver, error=VirtualDeadlockError(deadlock(self)))
        else:
            self._end_wait_of_driver()
        self.patience.note_in_vain(self.now, self.members)

    def _is_held_up(self) -> bool:
        """Whether anybody may still act, or time that advances by itself would bring a timer."""
        acts = self._running or self._queue or self._firing or self.promises or self.holds
        return bool(acts) or (self._auto > 0 and self.timers.first() is not None)

    def _waits_elsewhere(self, driver: Participant) -> bool:
        """Whether its thread waits for another clock, which has a patience of its own."""
        try:
            others = [one for one in kernels if one is not self and not one.closed]
        except RuntimeError:
            return True  # one was made meanwhile
        return any(
            one.driver.ident == driver.ident
            and (one._step is not None or one.driver.state is not State.RUNNING)
            for one in others
        )
