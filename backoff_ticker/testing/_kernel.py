"""The one rule of a virtual clock: nobody runs, so time goes on to what is due next.

Invariants:
    * Time moves only while no counted participant runs or is queued, nothing holds time still and
      no callback is being called; and then no further than the horizon: that of the step which
      somebody waits for, infinity while time advances by itself, else none.
    * Callbacks are called without the lock, one after the other, each at its own time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ._errors import ClockUsageError, SettleTimeout, Unwind, VirtualDeadlockError
from ._kept_turn import KeptTurn
from ._nanoseconds import NEVER, in_seconds
from ._participant import Participant, State
from ._reports import at, deadlock, stuck
from ._turns import Turns

if TYPE_CHECKING:
    from ._step import Step
    from ._timers import VirtualTimer

__all__ = ["Kernel", "kernels"]

kernels: WeakSet[Kernel] = WeakSet()
"""All that there are."""

_OUTSIDE = (State.AWAY, State.HELD)
_ONCE_MORE = 0.1
"""Seconds to wait for those who were waited for in vain."""


class Kernel(Turns):
    """Moves the time of a virtual clock.

    Attributes:
        closed: Whether the clock is closed.
        loops: What drives event loops by this clock.
        holds: Why time is held still, for however long.
        promises: Which participants are to come; time stands still, but not for ever.
        settle_timeout: Real seconds after which nobody waits any longer.
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
        self.loops: list[Any] = []
        self.holds: dict[object, str] = {}
        self.promises: dict[object, str] = {}
        self.settle_timeout: float = settle_timeout
        self._auto = 0
        self._step: Step | None = None
        self._kept_turn = KeptTurn()
        self._gave_up: tuple[int | None, dict[Participant, int]] = (None, {})
        self._still_since = 0.0
        self._still_at = start
        kernels.add(self)

    # Operations

    def add(self, timer: VirtualTimer) -> None:
        """Add a timer."""
        self.timers.push(timer)

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
            self._still_since = 0.0
            if step.participant is not None:
                self.pause(step.participant, State.AWAY, "a step")
        else:
            step.error = ClockUsageError(
                "this clock is being advanced already: one step at a time, in one thread"
            )
            self._end_step(step)

    def withdraw_step(self, step: Step) -> None:
        """Give up a step, if it is not done."""
        if self._step is step:
            self._step = None
            self._end_step(step)

    def _end_step(self, step: Step) -> None:
        if step.participant is not None:
            self.resume(step.participant)  # before time can move on without it
        step.finish()

    def automatic(self, change: int) -> None:
        """Have time advance by itself, or no longer."""
        self._auto += change

    def close(self) -> None:
        """Break off every wait, now and from now on."""
        self.closing = True
        for participant in [*self.members, *self.guests]:
            if participant.state is State.PARKED:
                self._ready(participant, error=Unwind())

    def forget_participants(self) -> None:
        """Be closed, in a forked child: nobody is there but the thread that forked."""
        self.closed = self.closing = True
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
            self._finish(error)

    # The rule

    def _dispatch(self) -> None:
        """Let run who may run, or let time go on."""
        while not self._firing:
            while self._queue and not (self._one_at_a_time and self._running):
                self._run_next()
            if self._running or self.holds or self.promises or self._inbox:
                break
            timer, horizon = self.timers.first(), self._horizon()
            if timer is None or horizon is None or timer.due > horizon:
                if not self._at_rest():
                    break
                continue
            self.timers.pop()
            target = timer.take()
            if target is None:
                continue  # cancelled in this very moment: time does not move for it
            self._move(timer.due, timer.when)
            if self._step is not None:
                self._step.fired += 1
            if not isinstance(target, Participant):
                self._firing = True
                self._callbacks.append(target)
                return
            self._ready(target, timed_out=True)

    def _horizon(self) -> float | None:
        if self._step is not None:
            return self._step.target
        return NEVER if self._auto and not self.closing else None

    def _at_rest(self) -> bool:
        """Everybody waits and nothing is due: say so. Returns whether that changed anything."""
        step = self._step
        if step is not None:
            if step.target is not None:
                self._move(step.target, in_seconds(step.target))
            self._finish(None)
            return True
        if any(one.state in _OUTSIDE or one.break_select for one in self.members):
            return False  # something outside may still come: the watch decides
        if self._auto and not self.closing:
            return self._stalled([one for one in self.members if one.state is State.PARKED])
        return self._driver_is_stuck()

    def _finish(self, error: BaseException | None) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.error = error
            self._end_step(step)

    def _stalled(self, waiting: list[Participant]) -> bool:
        message = deadlock(self)
        # Who was told before, in vain, is ended; those who wait for it go on.
        stubborn = [one for one in waiting if one.stalled_at == self.now]
        ended = [one for one in stubborn if one is not self.driver] or stubborn
        for participant in ended or waiting:
            participant.stalled_at = self.now
            error = Unwind(message) if ended else VirtualDeadlockError(message)
            self._ready(participant, error=error)
        return bool(waiting)

    def _driver_is_stuck(self) -> bool:
        driver = self.driver
        if driver.state is not State.PARKED or driver.break_select is not None or self.closing:
            return False
        parker: Any = driver.parker
        if parker is not None and parker.gives_up:
            self._ready(driver, timed_out=True)
            return True
        message = (
            f"{at(self)}: the thread that drives this clock waits on it ({driver.what}), every "
            "participant does, and time stands still. Call advance() first, await "
            "advance_async(), wait in a participant, or have time advance by itself."
        )
        self._ready(driver, error=ClockUsageError(message))
        return True

    # What only real time tells

    def look(self, real: float) -> None:
        """See to it that nobody waits for ever; called by the watch, in real seconds."""
        running = () if self._firing else self._running
        if self._kept_turn.look(real, self.given, running):
            self._share_turn()
        if self.now != self._still_at or not self._still_since or self.holds:
            self._still_at, self._still_since = self.now, real
        elif real - self._still_since >= self._patience():
            self._still_since = real
            self._give_up()

    def _share_turn(self) -> None:
        """Let the next one run, too: who runs may wait for a lock that it holds."""
        if self._queue:
            self._run_next()
            return
        timer = self.timers.first()
        if timer is not None and timer.due <= self.now and self._horizon() is not None:
            target = timer.sleeper
            if target is not None and timer.cancel():
                self._ready(target, timed_out=True)
                self._run_next()

    def _patience(self) -> float:
        """Return the real seconds to wait: few, if all that is for those waited for in vain."""
        if self._waited_for() and self.hopeless().issuperset(self._waited_for()):
            return min(self.settle_timeout, _ONCE_MORE)
        return self.settle_timeout

    def hopeless(self) -> set[Participant]:
        """Return those who were waited for in vain, and have not moved since."""
        when, turns = self._gave_up
        if when != self.now:
            return set()
        return {one for one, turn in self._waited_for().items() if turns.get(one) == turn}

    def _give_up(self) -> None:
        if self._step is None and self.driver.state is not State.PARKED:
            return
        if self._step is not None:
            self._finish(SettleTimeout(stuck(self, self._step.what)))
        elif self._running or self._queue or self._firing or self.promises:
            self._ready(self.driver, error=SettleTimeout(stuck(self, "a wait")))
        elif self._auto:
            self._ready(self.driver, error=VirtualDeadlockError(deadlock(self)))
        else:
            self._driver_is_stuck()
        self._gave_up = (self.now, self._waited_for())

    def _waited_for(self) -> dict[Participant, int]:
        """Return those who do not wait on the clock, and which turn was their last."""
        return {one: one.last_turn for one in self.members if one.state is not State.PARKED}
