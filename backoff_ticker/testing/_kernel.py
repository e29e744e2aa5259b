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
                      +---------- HELD by a trap, EXTERNAL: inside idle() or external(),
                                  DRIVING: waits for a step of its own
                                  (RUNNING -> ENDED: its function has returned)
```

Invariants:

1. State changes only in commands, which the command queue runs one at a time, and in what follows
   from them (``_dispatch``). A participant's own thread does nothing but post a command and then
   block on the lock ``turn``, which ``_dispatch`` releases as its state becomes RUNNING.
2. The command that ends a wait also queues the participant. So no thread is ever about to run
   without being counted, and "none can run" is exact: no real time is needed to find out.
3. Time moves only while no member is QUEUED or RUNNING, no command is queued, time is not frozen,
   no tracked function is still expected, and no callback runs. The current time is exactly the time
   of the timer that fires.
4. Callbacks run one after the other and without the lock, so they may call the clock.
5. An interrupt in the middle of a command or of ``_dispatch`` loses nothing. Each change is noted
   by one store (a state, a queue, a timer that is still pending) before anything else goes, and
   whoever runs commands next completes it: ``_repair``, the command again, ``_dispatch`` again. A
   command runs twice only before ``_dispatch``, while whoever it makes wait cannot have gone on.
6. With ``one_at_a_time`` at most one member is RUNNING, except while a stalled one shares its turn
   and while an interrupt is being handled.

Members are the participants that time waits for. A thread that drives the clock manually is none, a
helper thread of another package is none while it waits for work, and a thread that the clock does
not track (``strict=False``) waits as a guest.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from ..clock import current_clocks
from ._command_queue import CommandQueue
from ._errors import (
    ClockUsageError,
    ParticipantAborted,
    SettleTimeout,
    UntrackedThreadError,
    VirtualDeadlockError,
)
from .liveness._external_waits import loops_with_news, wait_for_return, works_inside_idle
from .liveness._main_thread_interrupt import MainThreadInterrupt
from .liveness._reports import (
    Snapshot,
    called_object,
    deadlock,
    driver_waits,
    on_another_clock,
    stuck,
    until_reached,
)
from .liveness._settle_timeout import SettleTimer
from .liveness._stall_detector import Activity, StallDetector, others_are_active
from .liveness._watchdog import Watchdog
from .participants._parking import Parking
from .participants._participant import Participant, State
from .participants._run_queue import RunQueue
from .participants._timers import in_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..clock import Clock
    from .participants._timers import VirtualTimer

_MAX_STALLS = 8
"""How many deadlock errors in a row, at one time, the driver gets before it is aborted."""

kernels: WeakSet[Kernel] = WeakSet()
"""All kernels of this process."""


class DrivenLoop(Protocol):
    """An event loop that runs on the clock's time."""

    @property
    def closed(self) -> bool:
        """Whether the loop is closed."""
        ...

    def pending(self) -> list[tuple[float, str, str]]:
        """Return when the loop's timers are due, what they call, and the participant's name."""
        ...

    def detach(self) -> None:
        """Give the loop its own time back."""
        ...


class Step:
    """A wait of a driver until time has reached a target and all participants wait again.

    Attributes:
        what: Its name in reports.
        target: The horizon in nanoseconds; None: nothing fires.
        finish: Wakes the driver. Called from any thread, possibly twice.
        participant: The driver, if it is a member; it does not count meanwhile.
        fired: How many timers have fired.
        error: The error that ended it.
        over: Whether it has ended.
    """

    __slots__ = ("error", "finish", "fired", "over", "participant", "target", "what")

    def __init__(
        self,
        what: str,
        target: int | None,
        finish: Callable[[], object],
        participant: Participant | None = None,
    ) -> None:
        self.what: str = what
        self.target: int | None = target
        self.finish: Callable[[], object] = finish
        self.participant: Participant | None = participant
        self.fired: int = 0
        self.error: BaseException | None = None
        self.over: bool = False

    def outcome(self) -> int:
        """Return how many timers fired, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.fired


class Kernel:
    """Moves the time of one virtual clock.

    Attributes:
        clock: The clock; the current one in participants and callbacks.
        strict: Whether only participants, and the driver, may wait.
        driver: The thread that entered the clock.
        by_ident: The participants that run, by the identifier of their thread.
        epoch: How far wall time is ahead, in seconds, if the module ``time`` tells the clock's;
            None: it tells real time.
        until: How far auto-advance goes, in nanoseconds.
        entered: Whether the clock's ``with`` block runs.
        closed: Whether the clock is closed.
        loops: The event loops that run on the clock's time.
        unretrieved: For each task whose function raised: returns the error if no caller got it.
        run_queue: Which participants are counted, and which run.
        parking: The time, the timers, and what waits for them.
        commands: Runs everything here that changes state.
        post: Runs a command; see ``CommandQueue.post``.
        query: Calls a function while nothing changes, and returns its result.
        interrupt: Reaches the main thread in a wait that is not on the clock.
        settle_timer: Says when time has stood still for too long.
        watchdog: Makes the kernel ``look`` at real time, once there are participants.
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
        self.clock: Clock
        self.strict: bool = strict
        self.driver: Participant = driver
        self.by_ident: dict[int, Participant] = {}
        self.epoch: float | None = None
        self.until: int | float = inf
        self.entered: bool = False
        self.closed: bool = False
        self.loops: list[DrivenLoop] = []
        self.unretrieved: list[Callable[[], BaseException | None]] = []
        self.run_queue: RunQueue = RunQueue(one_at_a_time=one_at_a_time)
        self.parking: Parking = Parking(start, self.run_queue, driver)
        self.commands: CommandQueue = CommandQueue(
            self._dispatch, self._run_callback, self._callback_ended, self._repair
        )
        self.post: Callable[..., None] = self.commands.post
        self.query: Callable[[Callable[[], Any]], Any] = self.commands.query
        self.interrupt: MainThreadInterrupt = MainThreadInterrupt()
        self.settle_timer: SettleTimer = SettleTimer(settle_timeout, start)
        self.watchdog: Watchdog = Watchdog(self._post_look)
        self._step: Step | None = None
        self._auto: dict[object, None] = {}
        self._frozen: dict[object, str] = {}
        self._expected: dict[object, str] = {}
        self._stall_detector = StallDetector()
        self._driver_activity = Activity()
        kernels.add(self)

    # The calling thread

    def participant_here(self, what: str) -> Participant:
        """Return the participant that this thread is.

        Raises:
            UntrackedThreadError: It is not a participant, and the clock is strict.
        """
        ident = threading.get_ident()
        found = self.by_ident.get(ident)
        if found is not None:
            return found
        here, driver = kernel_here(), self.driver
        elsewhere = here is not None and here is not self
        if ident == driver.ident and (self.entered or driver.counted or not elsewhere):
            return driver
        name = threading.current_thread().name
        if self.strict:
            if here is not None and elsewhere:
                called = called_object() or what
                raise UntrackedThreadError(on_another_clock(called, self.clock, here.clock))
            raise UntrackedThreadError(
                f"thread {name!r} waits on a virtual clock that does not track it"
                f"{f' ({what})' if what else ''}. Start it inside `with clock:`, with "
                "clock.spawn(function), or submit clock.tracked(function)."
            )
        return Participant(name, ident=ident, counted=False)

    def member_here(self) -> Participant | None:
        """Return the participant that this thread is, if it counts."""
        ident = threading.get_ident()
        driver = self.driver
        found = self.by_ident.get(ident) or (driver if driver.ident == ident else None)
        return found if found is not None and found.counted else None

    def check_open(self, what: str) -> None:
        """Raise a ``ClockUsageError`` if the clock is closed."""
        if self.closed:
            raise ClockUsageError(f"{what} of a closed clock")

    def check_not_in_callback(self, what: str) -> None:
        """Raise a ``ClockUsageError`` if this thread runs a timer's callback."""
        if self.commands.fires_here:
            raise ClockUsageError(f"a timer callback must not block ({what or 'a wait'})")

    def check_may_drive(self, what: str) -> None:
        """Raise a ``ClockUsageError`` if this thread may not move the time of the clock now."""
        self.check_open(what)
        self.check_not_in_callback(what)
        participant = self.by_ident.get(threading.get_ident())
        if participant is not None:
            raise ClockUsageError(
                f"{what} in {participant.name!r}, which the clock waits for: only a thread that it "
                "does not track can drive it"
            )

    def enter(self, participant: Participant) -> None:
        """Count a participant from now on; its thread waits for its turn."""
        self.watchdog.start()
        self.post(self.run_queue.enter, participant)

    def snapshot(self) -> Snapshot:
        """Return the state that reports show. For commands."""
        return Snapshot(
            self.parking.now,
            self.settle_timer.limit(frozen=self.time_is_frozen),
            self.driver,
            list(self.run_queue.members),
            list(self._expected.values()),
            list(self._frozen.values()),
        )

    @property
    def time_is_frozen(self) -> bool:
        """Whether something holds time."""
        return bool(self._frozen)

    # Commands

    def add_loop(self, loop: DrivenLoop) -> None:
        """Note a loop that runs on the clock's time, and forget those that are closed."""
        others = [one for one in self.loops if one is not loop and not one.closed]
        self.loops = [*others, loop]

    def freeze_time(self, key: object, what: str) -> None:
        """Stop time until ``unfreeze_time(key)``; ``what`` holds it."""
        self._frozen[key] = what

    def unfreeze_time(self, key: object) -> None:
        """Undo ``freeze_time(key)``."""
        self._frozen.pop(key, None)

    def expect(self, key: object, name: str) -> None:
        """Stop time until ``arrived(key)``: a participant is about to begin."""
        self._expected[key] = name

    def arrived(self, key: object) -> None:
        """Undo ``expect(key)``."""
        self._expected.pop(key, None)

    def begin_auto(self, key: object) -> None:
        """Let time advance on its own until ``end_auto(key)``."""
        self._auto[key] = None

    def end_auto(self, key: object) -> None:
        """Undo ``begin_auto(key)``."""
        self._auto.pop(key, None)

    def begin_step(self, step: Step) -> None:
        """Begin a step, unless one is under way."""
        if self._step is None or self._step is step:
            self._step = step
            self.settle_timer.restart()
            if step.participant is not None:
                self.run_queue.pause(step.participant, State.DRIVING, "a step")
        else:
            step.error = ClockUsageError(
                "this clock is being advanced already: one step at a time, in one thread"
            )
            self._conclude(step)

    def withdraw_step(self, step: Step) -> None:
        """End a step whose driver has stopped waiting."""
        if self._step is step:
            self._end_step(None)

    def _end_step(self, error: BaseException | None) -> None:
        step = self._step
        if step is not None:
            step.error = error
            step.over = True
            self._conclude(step)
            self._step = None

    def _conclude(self, step: Step) -> None:
        if step.participant is not None:
            self.run_queue.resume(step.participant)  # first, so that time waits for the driver
        step.finish()

    def abort_waits(self) -> None:
        """End every wait and the step, now and from now on."""
        self.parking.closing = True
        self._end_step(ClockUsageError("the clock was closed meanwhile"))
        for participant in [*self.run_queue.members, *self.parking.guests]:
            if participant.state is State.PARKED:
                self.parking.end_wait(participant, error=ParticipantAborted())

    def forget_participants(self) -> None:
        """Close, in a forked child: no thread exists but the one that forked."""
        self.closed = True
        self.parking.closing = True
        self._auto.clear()
        self._step = None
        self.driver.counted = False
        self.driver.state = State.RUNNING
        self.commands.clear()
        self.run_queue.clear()
        self.by_ident.clear()
        self.parking.clear()

    # The rule

    def _dispatch(self) -> None:
        """Give turns; when no participant can run, move the time to the next timer and fire it."""
        commands, run_queue, parking = self.commands, self.run_queue, self.parking
        queue, running = run_queue.queue, run_queue.running
        while True:
            run_queue.give_turns(paused=commands.firing)
            if commands.firing or running or self._frozen or self._expected or commands.commands:
                break
            timer, horizon = parking.timers.first(), self._horizon()
            if run_queue.external and not self._all_external_are_quiet(horizon):
                if queue:
                    continue  # an event loop whose descriptors are ready
                break
            if timer is None or horizon is None or timer.due > horizon:
                if self._come_to_rest():
                    continue
                break
            sleeper = timer.sleeper
            self._reach(timer)
            if sleeper is None:
                commands.fire(timer.fire)  # the loop goes on once the callback has ended
            else:
                parking.end_wait(sleeper, timed_out=True)

    def _repair(self) -> None:
        """Complete what an interrupt has cut short, other than a command; may be repeated."""
        self.run_queue.repair()
        self.parking.repair()
        if self._step is not None and self._step.over:
            self._end_step(self._step.error)

    def _horizon(self) -> int | float | None:
        """Return how far time may go, in nanoseconds; None: nothing may even fire."""
        if self._step is not None:
            return self._step.target
        return self.until if self._auto and not self.parking.closing else None

    def _reach(self, timer: VirtualTimer) -> None:
        self.parking.move(timer.due, timer.when)
        if self._step is not None:
            self._step.fired += 1

    def _come_to_rest(self) -> bool:
        """End the step, or waits that nothing else can end; return whether there were any."""
        step = self._step
        if step is not None:
            if step.target is not None:
                self.parking.move(step.target, in_seconds(step.target))
            self._end_step(None)
            return True
        members = self.run_queue.members
        if self.run_queue.external or any(one.state is State.HELD for one in members):
            return False  # something real may still happen: look() decides
        if self._auto and not self.parking.closing:
            return self._break_deadlock([one for one in members if one.state is State.PARKED])
        return self._end_wait_of_driver()

    def _break_deadlock(self, waiting: list[Participant]) -> bool:
        """Raise an error in all waits; return whether there are any."""
        if not waiting:
            return False
        message = self._text_of_deadlock()
        now = self.parking.now
        # A participant that caught this error and waits again at the same time would do so for
        # ever: it alone is aborted, because its end may let the others continue. The driver gets
        # the error several times, so that its code can clean up.
        repeated = [one for one in waiting if one.stalled_at == now]
        aborted = [one for one in repeated if one is not self.driver]
        for participant in aborted or waiting:
            participant.stalls = participant.stalls + 1 if participant in repeated else 1
            participant.stalled_at = now
            if participant in aborted or participant.stalls > _MAX_STALLS:
                error: BaseException = ParticipantAborted(message)
            else:
                error = VirtualDeadlockError(message)
            self.parking.end_wait(participant, error=error)
        return True

    def _text_of_deadlock(self) -> str:
        """Move time as far as auto-advance goes; return the text that says why it ends there."""
        if self.parking.timers.first() is None:
            return deadlock(self.snapshot())
        until = max(int(self.until), self.parking.now)  # finite: a later timer is set
        self.parking.move(until, in_seconds(until))
        return until_reached(self.snapshot())

    def _end_wait_of_driver(self) -> bool:
        """End the wait of a thread that drives manually, if it waits; return whether it does."""
        driver = self.driver
        if driver.state is not State.PARKED or self.parking.closing:
            return False
        if driver.place is not None and driver.place.gives_up:
            self.parking.end_wait(driver, timed_out=True)
        else:
            error = ClockUsageError(driver_waits(self.snapshot()))
            self.parking.end_wait(driver, error=error)
        return True

    def _all_external_are_quiet(self, horizon: float | None) -> bool:
        """Whether no participant that waits for something real has it, or is about to return."""
        if self._step is None and horizon is None and self.driver.state is not State.PARKED:
            return True  # nothing would move now
        if self._wake_loops_with_news():
            return False
        idle = [one for one in self.run_queue.external if one.state is State.EXTERNAL]
        if not idle:
            return True
        if self._is_about_to_act(idle):
            self.watchdog.wake()  # it checks in place of this thread
            return False
        # An idle thread may have sent something to a loop before it went to sleep again.
        return not wait_for_return(idle, self._has_commands) and not self._wake_loops_with_news()

    def _wake_loops_with_news(self) -> bool:
        """End the waits of event loops whose descriptors are ready; return whether there were."""
        loops = loops_with_news(self.run_queue.external)
        for loop in loops:
            self.parking.end_wait(loop)
        return bool(loops)

    def _is_about_to_act(self, idle: list[Participant]) -> bool:
        """Whether this thread is still to block inside ``idle()``, or to use what it received."""
        ident = threading.get_ident()
        if any(one.ident == ident for one in idle):
            return True
        return ident not in self.by_ident and ident not in (self.driver.ident, self.watchdog.ident)

    def _has_commands(self) -> bool:
        return any(command != self.look for command, *_ in self.commands.commands.copy())

    # Callbacks

    def _run_callback(self, callback: Callable[[], object]) -> None:
        with as_current(self.clock):
            callback()

    def _callback_ended(self, error: BaseException | None) -> None:
        if error is None:
            return
        if self._step is None:
            self.commands.errors.append(error)
        else:
            self._end_step(error)

    # What can only be judged by real time

    def _post_look(self, real: float) -> None:
        self.post(self.look, real)

    def look(self, real: float) -> None:
        """End waits that would last for ever; a command of the watchdog, with the real time.

        Where another thread runs it, that thread acts, so time does not stand still; and it would
        not get on if it looked more slowly than the watchdog posts.
        """
        if threading.get_ident() != self.watchdog.ident:
            return
        run_queue = self.run_queue
        running = () if self.commands.firing else run_queue.running
        if self._stall_detector.is_stalled(real, run_queue.turns_given, running):
            self._share_turn()
        driver = self.driver
        driver_idles = self._driver_idles()
        driver_works = (
            driver_idles or driver in run_queue.running
        ) and self._driver_activity.has_changed(driver.native)
        if driver_works or any(works_inside_idle(one) for one in run_queue.external):
            self.parking.progress += 1
        somebody_waits = self._step is not None or driver.state is State.PARKED or driver_idles
        if not somebody_waits and not self._driver_delays_others():
            self.settle_timer.restart()
        elif self.settle_timer.has_expired(
            real,
            self.parking.now,
            self.parking.progress,
            run_queue.members,
            frozen=self.time_is_frozen,
        ):
            self._give_up()

    def _driver_delays_others(self) -> bool:
        """Whether the driver runs, with auto-advance, while others wait for time to go on."""
        others = len(self.run_queue.members) > 1 or self.parking.timers.first() is not None
        return bool(self._auto) and others and self.driver in self.run_queue.running

    def _driver_idles(self) -> bool:
        """Whether the driver is inside ``idle()``, with auto-advance; not inside ``external()``."""
        waits = self.driver.state is State.EXTERNAL and not self._frozen
        return waits and bool(self._auto) and not self.parking.closing

    def _share_turn(self) -> None:
        """Also run the next participant: those that run may wait for a lock that it holds."""
        run_queue, parking = self.run_queue, self.parking
        if run_queue.queue:
            run_queue.run_next()
            while parking.closing and run_queue.queue:
                run_queue.run_next()  # all are being aborted: their order does not matter
            return
        if self._horizon() is None:
            return
        # None is queued. A participant whose timer is due now may hold the lock, so that timer
        # fires although others run.
        for timer in parking.timers.pending():
            target = timer.sleeper
            if timer.due > parking.now:
                break
            if target is not None:
                self._reach(timer)
                parking.end_wait(target, timed_out=True)
                run_queue.run_next()
                break

    def _give_up(self) -> None:
        """Fail the step, or the wait of the driver, that has taken too long."""
        driver = self.driver
        if self._step is not None:
            self._end_step(SettleTimeout(stuck(self.snapshot(), self._step.what)))
        elif driver.state is not State.PARKED:
            if not others_are_active() and not self._driver_waits_elsewhere():
                error: Exception = (
                    VirtualDeadlockError(self._text_of_deadlock())
                    if driver.state is State.EXTERNAL and not self._is_held_up()
                    else SettleTimeout(stuck(self.snapshot(), "auto_advance()"))
                )
                self.interrupt.send(driver.ident, error)
            return
        elif self._is_held_up():
            text = stuck(self.snapshot(), f"{driver.name}: {driver.what}")
            self.parking.end_wait(driver, error=SettleTimeout(text))
        elif self._auto:
            error = VirtualDeadlockError(self._text_of_deadlock())
            self.parking.end_wait(driver, error=error)
        else:
            self._end_wait_of_driver()
        self.settle_timer.abandon(self.parking.now, self.run_queue.members)

    def _is_held_up(self) -> bool:
        """Whether a participant may still act, or auto-advance could still fire a timer."""
        run_queue = self.run_queue
        acts = run_queue.running or run_queue.queue or self.commands.firing
        acts = acts or any(works_inside_idle(one) for one in run_queue.external)
        delayed = self._expected or self._frozen
        timer = self.parking.timers.first() if self._auto else None
        return bool(acts or delayed or (timer is not None and timer.due <= self.until))

    def _driver_waits_elsewhere(self) -> bool:
        """Whether the driver's thread waits for another clock, which has its own time-out."""
        try:
            others = [one for one in kernels if one is not self and not one.closed]
        except RuntimeError:
            return True  # another thread has just made one
        return any(
            one.driver.ident == self.driver.ident
            and (one._step is not None or one.driver.state is not State.RUNNING)
            for one in others
        )

    def waited_for(self) -> set[Participant]:
        """Return the members, except those that were waited for in vain before."""
        members = self.run_queue.members
        return members.keys() - self.settle_timer.abandoned(self.parking.now, members)


@contextmanager
def as_current(clock: Clock) -> Iterator[None]:
    """Make ``clock`` the current one in this thread, inside the block."""
    ident = threading.get_ident()
    before = current_clocks.get(ident)
    current_clocks[ident] = clock
    try:
        yield
    finally:
        if before is None:
            current_clocks.pop(ident, None)
        else:
            current_clocks[ident] = before


def kernel_here() -> Kernel | None:
    """Return the kernel of this thread's current clock, if that is virtual and open."""
    kernel: Any = getattr(current_clocks.get(threading.get_ident()), "_kernel", None)
    return kernel if isinstance(kernel, Kernel) and not kernel.closed else None
