"""The kernel of a virtual clock: the one rule by which time moves.

The rule: **when no participant can run, time moves to the next timer, but not beyond the horizon.**
The horizon is the target of the step that a driver waits for (``advance()``), infinity with
auto-advance, and otherwise absent: nothing fires. Manual advance, auto-advance, ``settle()`` and
deadlock detection are this rule with different horizons.

The states of a participant:

```text
           enter             run_next            park
(a start) ------->  QUEUED  ---------> RUNNING -------> PARKED
                      ^                 |  |               |
                      |  yield_turn     |  |               |  unpark, a timer, an error
                      +-----------------+  |               |
                      +-------------------------------------+
                      |                    |  pause
                      |   resume           v
                      +---------- EXTERNAL: inside idle() or external(), or set aside by the
                                  watchdog, which found it waiting for another thread
                                  (RUNNING -> ENDED: its function has returned)
```

Invariants:

1. State changes only in the kernel's own thread (``_commands``). A participant's thread posts a
   command and blocks on the lock ``turn``, which is released as its state becomes RUNNING.
2. The command that ends a wait also queues the participant. So no thread is ever about to run
   without being counted, and "none can run" is exact: no real time is needed to find out.
3. Time moves only while no member is QUEUED or RUNNING, no command is queued, nothing holds time,
   and no callback runs. The current time is exactly the time of the timer that fires.
4. Callbacks run one after the other, in another thread: they run code of the user.
5. With ``one_at_a_time`` at most one member is RUNNING, except while a stalled one shares its turn
   and while an interrupt is being handled.

Members are the participants that time waits for. A thread that drives the clock by hand is none,
and a thread that the clock does not track (``strict=False``) waits as a guest. A driver waits for
its step, and a call that a trap holds, in the same way as for anything else on the clock.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from ..clock import current_clocks, start_thread
from ._commands import Commands
from ._errors import ClockUsageError, ParticipantAborted, UntrackedThreadError, VirtualDeadlockError
from ._main_thread_interrupt import MainThreadInterrupt
from ._participants import ParkingPlace, Participant, Participants, State
from ._real_time import SettleTimer, is_busy, wait_for_return
from ._reports import at, called_object, on_another_clock, with_places
from ._timers import TimerInfo, VirtualTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..clock import Clock

_MAX_STALLS = 8  # deadlock errors in a row, at one time, before the driver is aborted

_CLOSED = "the clock was closed meanwhile"

kernels: WeakSet[Kernel] = WeakSet()


class Step(ParkingPlace):
    """Where a driver waits until time has reached a target and all participants wait again.

    ``target`` is the horizon in nanoseconds; None: nothing fires. ``finish`` wakes a coroutine.
    """

    def __init__(
        self, what: str, target: int | None, finish: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(what)
        self.target: int | None = target
        self.finish: Callable[[], object] = finish
        self.fired: int = 0
        self.error: BaseException | None = None

    def outcome(self) -> int:
        if self.error is not None:
            raise self.error
        return self.fired


class Kernel(Participants):
    """Moves the time of one virtual clock."""

    def __init__(
        self,
        clock: Clock,
        start: int,
        *,
        strict: bool,
        one_at_a_time: bool,
        settle_timeout: float,
    ) -> None:
        driver = Participant(threading.current_thread().name, counted=False)
        driver.ident = threading.get_ident()
        super().__init__(start, driver, one_at_a_time=one_at_a_time)
        self.clock: Clock = clock  # the current one in participants and callbacks
        self.strict: bool = strict
        self.by_ident: dict[int, Participant] = {}  # those that run, by their thread
        # How far wall time is ahead, in seconds; None: the module `time` tells real time.
        self.epoch: float | None = None
        self.until: int | float = inf  # how far auto-advance goes, in nanoseconds
        self.entered: bool = False  # whether the clock's `with` block runs
        self.closed: bool = False
        self.loops: list[Any] = []  # the drivers of the event loops on the clock's time
        self.pools: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # what stands for them here
        # For each task whose function raised: returns the error if no caller got it.
        self.unretrieved: list[Callable[[], BaseException | None]] = []
        self.traps: list[Any] = []  # those that are open
        self.commands: Commands = Commands(self)
        self.post: Callable[..., None] = self.commands.post
        self.query: Callable[[Callable[[], Any]], Any] = self.commands.query
        self.interrupt: MainThreadInterrupt = MainThreadInterrupt(driver)
        self.settle_timer: SettleTimer = SettleTimer(settle_timeout)
        self.step: Step | None = None
        self.auto: dict[object, None] = {}  # one key for each block with auto-advance
        self.holds: dict[object, str] = {}  # what is real, and stops time for up to a minute
        self.expected: dict[object, str] = {}  # tracked functions that are about to be called
        self.firing: VirtualTimer | None = None
        self._calls_in: int | None = None
        # Ends waits that would last forever; called every 10 ms with the real time in seconds.
        self.look: Callable[[float], None]
        kernels.add(self)

    # The calling thread

    def participant_here(self, what: str) -> Participant:
        """Return the participant that this thread is, or a guest if the clock is not strict."""
        ident, driver = threading.get_ident(), self.driver
        found = self.by_ident.get(ident)
        if found is not None:
            return found
        here = kernel_here()
        other = None if here is self else here
        if ident == driver.ident and (self.entered or driver.counted or other is None):
            return driver
        name = threading.current_thread().name
        if not self.strict:
            return Participant(name, counted=False)
        if other is not None:
            text = on_another_clock(called_object() or what, self.clock, other.clock)
            raise UntrackedThreadError(text)
        raise UntrackedThreadError(
            f"thread {name!r} waits on a virtual clock that does not track it"
            f"{f' ({what})' if what else ''}. Start it inside `with clock:`, with "
            "clock.spawn(function), or submit clock.tracked(function)."
        )

    def known_here(self) -> Participant | None:
        """Return the participant that this thread is, or the driver."""
        ident = threading.get_ident()
        return self.by_ident.get(ident) or (self.driver if self.driver.ident == ident else None)

    def member_here(self) -> Participant | None:
        """Return the participant that this thread is, if it counts."""
        found = self.known_here()
        return found if found is not None and found.counted else None

    def check_open(self, what: str) -> None:
        if self.closed:
            raise ClockUsageError(f"{what} of a closed clock")

    def runs_callback_here(self) -> bool:
        return self._calls_in == threading.get_ident()

    def check_not_in_callback(self, what: str) -> None:
        if self.runs_callback_here():
            raise ClockUsageError(f"a timer callback must not block ({what or 'a wait'})")

    def check_may_drive(self, what: str) -> None:
        """Raise a ``ClockUsageError`` if this thread may not move the time of the clock now."""
        self.check_open(what)
        self.check_not_in_callback(what)
        here = self.by_ident.get(threading.get_ident())
        if here is not None:
            raise ClockUsageError(
                f"{what} in {here.name!r}, which the clock waits for: only a thread that it "
                "does not track can drive it"
            )

    @property
    def ended(self) -> bool:
        """Whether the clock is closed and nobody waits on it any more."""
        return self.closed and not self.members and not self.guests

    def spring_traps(self, kind: str, *args: object) -> None:
        """Hold this call of a method of the clock, if a trap says so."""
        for trap in tuple(self.traps):
            if trap.kind == kind:
                trap.catch(args)

    # Asked while nothing changes

    def pending(self) -> list[TimerInfo]:
        """Return the timers that are set, in the order in which they are due."""
        found = [
            TimerInfo(timer.when, timer.what, timer.sleeper.name if timer.sleeper else None)
            for timer in self.timers.pending()
            # Not what a loop waits for: it lists its own timers.
            if timer.sleeper is None or timer.sleeper.place not in self.loops
        ]
        found += [TimerInfo(*timer) for loop in self.loops for timer in loop.pending()]
        return sorted(found, key=lambda timer: timer.when)

    def count_parked(self) -> int:
        known = (*self.members, *self.guests)
        return sum(one.state is State.PARKED and one.place is not self.step for one in known)

    # Commands

    def add_loop(self, loop: Any) -> None:
        """Note a loop that runs on the clock's time, and forget those that are closed."""
        others = [one for one in self.loops if one is not loop and not one.is_closed()]
        self.loops = [*others, loop]

    def begin_step(self, step: Step, driver: Participant | None = None) -> None:
        """Begin a step, unless one is under way; ``driver`` is the thread that waits for it."""
        if self.closing:
            self._finish(step, ClockUsageError(_CLOSED))
        elif self.step is not None:
            self._finish(
                step, ClockUsageError("this clock is being advanced already: one step at a time")
            )
        else:
            self.step = step
            self.settle_timer.restart()
        if driver is not None:
            self.park(driver, step, None)

    def withdraw_step(self, step: Step) -> None:
        if self.step is step:
            self.end_step(None)

    def end_step(self, error: BaseException | None) -> None:
        step, self.step = self.step, None
        if step is not None:
            self._finish(step, error)

    def _finish(self, step: Step, error: BaseException | None) -> None:
        step.error = error
        self.unpark(step)
        step.finish()

    def run_out_of_turn(self, participant: Participant) -> None:
        if participant.place is self.step:
            self.end_step(None)
        super().run_out_of_turn(participant)

    def abort_waits(self) -> None:
        """End every wait and the step, now and from now on."""
        self.closing: bool = True
        self.end_step(ClockUsageError(_CLOSED))
        for one in [*self.members, *self.guests]:
            if one.state is State.PARKED and not (one.waits_for_work and one.daemon):
                self.end_wait(one, error=ParticipantAborted())

    def forget_participants(self) -> None:
        """Close, in a forked child: no thread exists but the one that forked."""
        self.closed = True
        self.commands.ended = True
        self.driver.counted = False
        self.driver.state = State.RUNNING
        self.by_ident.clear()
        super().__init__(self.now, self.driver, one_at_a_time=self.one_at_a_time)
        self.closing = True

    # The rule

    def after_commands(self) -> None:
        """Give turns; when no participant can run, move the time to the next timer and fire it."""
        commands = self.commands.queue
        while not self.firing:
            self.give_turns()
            if self.running or not commands.empty() or self.holds or self.expected:
                break
            timer, horizon = self.timers.first(), self.horizon()
            if self.external and not self._all_external_are_quiet(horizon):
                if self.queue:
                    continue  # an event loop whose descriptors are ready
                break
            if timer is None or horizon is None or timer.due > horizon:
                if not self._come_to_rest():
                    break
            else:
                self.fire(timer)

    def horizon(self) -> int | float | None:
        """Return how far time may go, in nanoseconds; None: nothing may even fire."""
        if self.step is not None:
            return self.step.target
        return self.until if self.auto and not self.closing else None

    def fire(self, timer: VirtualTimer) -> None:
        self.move(timer.due)
        if self.step is not None:
            self.step.fired += 1
        if timer.sleeper is not None:
            timer.fire()
        else:
            self.firing = timer
            start_thread(partial(self._call, timer), timer.what)

    def _call(self, timer: VirtualTimer) -> None:
        error: BaseException | None = None
        self._calls_in = threading.get_ident()
        try:
            with entry(current_clocks, self.clock):
                timer.fire()
        except BaseException as raised:  # raised where the step was taken
            error = raised
        self._calls_in = None
        # Time stands still until the main thread knows of a signal that the callback has raised.
        self.interrupt.after_signals(lambda: self.post(self._callback_ended, timer, error))

    def _callback_ended(self, timer: VirtualTimer, error: BaseException | None) -> None:
        if self.firing is not timer:
            return  # it is told again
        self.firing = None
        if error is not None and self.step is None:
            self.commands.errors.append(error)
        elif error is not None:
            self.end_step(error)

    def _come_to_rest(self) -> bool:
        """End the step, or waits that nothing else can end; return whether there were any."""
        if self.step is not None:
            if self.step.target is not None:
                self.move(self.step.target)
            self.end_step(None)
            return True
        if self.external or any(one.waits_for_work for one in self.members):
            return False  # something real may still happen: look() decides
        return self.end_waits()

    def end_waits(self) -> bool:
        """End waits that nothing else can end; return whether there are any."""
        if self.auto and not self.closing:
            return self._break_deadlock()
        return self._end_wait_of_driver()

    def _break_deadlock(self) -> bool:
        """Raise an error in all waits; return whether there are any."""
        parked = [one for one in self.members if one.state is State.PARKED]
        waiting = [one for one in parked if not one.waits_for_work]
        if not waiting:
            return False
        message = self.text_of_deadlock()
        now = self.now
        # One that caught this error and waits again at the same time would do so forever: it alone
        # is aborted, because its end may let the others continue. The driver gets the error several
        # times, so that its code can clean up.
        repeated = [one for one in waiting if one.stalled_at == now]
        aborted = [one for one in repeated if one is not self.driver]
        for one in aborted or waiting:
            one.stalls = one.stalls + 1 if one in repeated else 1
            one.stalled_at = now
            ends = one in aborted or one.stalls > _MAX_STALLS
            kind = ParticipantAborted if ends else VirtualDeadlockError
            self.end_wait(one, error=kind(message))
        return True

    def text_of_deadlock(self) -> str:
        """Move time as far as auto-advance goes; return the text that says why it ends there."""
        if self.timers.first() is None:
            return (
                f"{at(self.now)}: no timer is set and every participant waits: "
                f"{with_places(self.members)}. One of them has to send, cancel, or set a timeout."
            )
        self.move(max(int(self.until), self.now))  # finite: a later timer is set
        return (
            f"{at(self.now)}, the time given as until=, these participants still wait: "
            f"{with_places(self.members)}. Cancel their tokens earlier, or give a later time."
        )

    def _end_wait_of_driver(self) -> bool:
        """End the wait of a thread that drives by hand, if it waits; return whether it does."""
        driver = self.driver
        if driver.state is not State.PARKED or self.closing:
            return False
        if driver.place is not None and driver.place.gives_up:
            self.end_wait(driver, timed_out=True)
            return True
        error = ClockUsageError(
            f"{at(self.now)}: the thread that drives this clock waits on it ({driver.what}), every "
            "participant does, and time stands still. Call advance() first, await "
            "advance_async(), cancel what it waits for, or use auto-advance."
        )
        self.end_wait(driver, error=error)
        return True

    def _all_external_are_quiet(self, horizon: float | None) -> bool:
        """Whether no participant that waits for something real has it, or is about to return."""
        if self.step is None and horizon is None and self.driver.state is not State.PARKED:
            return True  # nothing would move now
        if self._wake_loops_with_news():
            return False
        idle = [one for one in self.external if one.state is State.EXTERNAL]
        if not idle:
            return True
        if wait_for_return(idle, lambda: not self.commands.queue.empty()):
            return False
        working = [one for one in idle if one.aside and is_busy(one)]
        for one in working:
            self.run_out_of_turn(one)
        # An idle thread may have sent something to a loop before it went to sleep again.
        return not working and not self._wake_loops_with_news()

    def _wake_loops_with_news(self) -> bool:
        """End the waits of event loops whose descriptors are ready; return whether there were."""
        parked = [one for one in self.external if one.state is State.PARKED]
        loops = [one for one in parked if one.place is not None and one.place.has_news()]
        for loop in loops:
            self.end_wait(loop)
        return bool(loops)


@contextmanager
def entry(table: dict[int, Any], value: object) -> Iterator[None]:
    """Have this thread's entry in ``table`` be ``value`` inside the block."""
    ident = threading.get_ident()
    before = table.get(ident)
    table[ident] = value
    try:
        yield
    finally:
        if before is None:
            table.pop(ident, None)
        else:
            table[ident] = before


def kernel_here() -> Kernel | None:
    """Return the kernel of this thread's current clock, if that is virtual and open."""
    kernel: Any = getattr(current_clocks.get(threading.get_ident()), "_kernel", None)
    return kernel if isinstance(kernel, Kernel) and not kernel.closed else None
