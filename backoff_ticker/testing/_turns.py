"""Who runs, who waits for a turn, and who waits on the clock.

Invariant: who wakes a participant queues it before anything else can look, so nobody is ever on the
way to running without being counted.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

from ._errors import UntrackedThreadError, Unwind
from ._inbox import Inbox
from ._nanoseconds import in_nanoseconds, in_seconds
from ._participant import Participant, State
from ._timers import TimerHeap, VirtualTimer
from ._watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._parker import VirtualParker

__all__ = ["POLLS", "Turns"]

POLLS = 128
"""How many waits without a wait a participant may make before the others have their turn."""

_AFTER_ALL = 1 << 62
"""The order of the driver's own wake-up: last at its time."""


class Turns(Inbox):
    """The participants of a virtual clock, its timers and its time.

    Attributes:
        now: The time in nanoseconds.
        seconds: The same as it is read: never less than what was due, exactly, and has fired.
        driver: The thread that drives the clock.
        strict: Whether only participants, and the driver, may wait.
        closing: Whether waits are broken off.
        members: Those that are counted.
        guests: Those that wait and are not counted.
        given: How many turns were given.
        by_ident: Those that have begun, by their thread.
        timers: What is due.
        next_order: Returns the place in the order of those who are due at the same time.
        watch: Has real time looked at, once there is a participant.
    """

    def __init__(
        self, start: int, driver: Participant, *, strict: bool, one_at_a_time: bool
    ) -> None:
        super().__init__()
        self.now: int = start
        self.seconds: float = in_seconds(start)
        self.driver: Participant = driver
        self.strict: bool = strict
        self.closing: bool = False
        self.members: dict[Participant, None] = {}
        self.guests: dict[Participant, None] = {}
        self.given: int = 0
        self.by_ident: dict[int, Participant] = {}
        self.timers: TimerHeap = TimerHeap()
        self.next_order: Callable[[], int] = count().__next__
        self.watch: Watch = Watch(self)
        self._one_at_a_time = one_at_a_time
        self._running: dict[Participant, None] = {}
        self._queue: deque[Participant] = deque()

    def look(self, real: float) -> None:
        """See to it that nobody waits for ever; called by the watch, in real seconds."""
        raise NotImplementedError

    def clear(self) -> None:
        """Know of no participant, operation or timer any more."""
        super().clear()
        self.timers = TimerHeap()
        for known in (self.members, self.guests, self.by_ident, self._running, self._queue):
            known.clear()

    # In the participant's own thread

    def enter_new(self, participant: Participant) -> None:
        """Count a participant from now on; its thread waits for its turn."""
        self.watch.begin()
        self.post(self.enter, participant)

    def here(self, what: str) -> Participant:
        """Return the participant that this thread is.

        Raises:
            UntrackedThreadError: It is none, and the clock is strict.
        """
        ident = threading.get_ident()
        found = self.by_ident.get(ident)
        if found is not None:
            return found
        if ident == self.driver.ident:
            return self.driver
        name = threading.current_thread().name
        if self.strict:
            raise UntrackedThreadError(
                f"thread {name!r} waits on a virtual clock that does not track it"
                f"{f' ({what})' if what else ''}. Start it inside `with clock:`, with "
                "clock.spawn(function), or submit clock.tracked(function)."
            )
        return Participant(name, ident=ident, counted=False)

    def interrupt(self, participant: Participant) -> None:
        """Run a participant, in its own thread, whose wait an interrupt has broken off."""
        self.unlock()
        self.post(self.interrupted, participant)
        while participant.state is not State.RUNNING:
            self.post(self.interrupted, participant)  # another thread is about to carry it out
        participant.turn.acquire(blocking=False)

    # Operations

    def enter(self, participant: Participant) -> None:
        """Count a participant from now on; it runs when its turn comes."""
        self.members[participant] = None
        participant.counted = True
        participant.state = State.QUEUED
        self._queue.append(participant)

    def leave(self, participant: Participant) -> None:
        """Do not count it any more."""
        participant.counted = False
        self._off(participant)
        participant.state = State.RUNNING

    def end(self, participant: Participant) -> None:
        """Forget a participant that has ended, and tell those who wait for that."""
        self._off(participant)
        self._end_wait(participant)
        participant.state = State.ENDED
        at_end, participant.at_end = participant.at_end, []
        for call in at_end:
            call()

    def _off(self, participant: Participant) -> None:
        self.members.pop(participant, None)
        self._running.pop(participant, None)
        self._unqueue(participant)

    def _unqueue(self, participant: Participant) -> None:
        if participant in self._queue:
            self._queue.remove(participant)

    def watch_end(self, participant: Participant, call: Callable[[], object]) -> None:
        """Call once ``participant`` has ended."""
        if participant.state is State.ENDED:
            call()
        else:
            participant.at_end.append(call)

    def park(
        self,
        participant: Participant,
        parker: VirtualParker | None,
        when: float | None,
        order: int | None,
        what: str,
    ) -> None:
        """Have a participant wait; ``turn`` is released once it need not."""
        participant.timed_out = False
        due = None if when is None else in_nanoseconds(when)
        if self.closing:
            participant.error = Unwind()
            participant.grant()
        elif self._need_not_wait(participant, parker):
            participant.grant()
        elif when is not None and due is not None and due <= self.now:
            self._move(self.now, when)
            participant.timed_out = True
            participant.polls += 1
            if participant.polls % POLLS:
                participant.grant()
            else:
                self.yield_turn(participant)
        else:
            participant.polls = 0
            participant.state = State.PARKED
            participant.what = what
            if not participant.counted:
                self.guests[participant] = None
            participant.parker = parker
            if parker is not None:
                parker.participant = participant
            self._running.pop(participant, None)
            if when is not None:
                if participant is self.driver:
                    order = _AFTER_ALL + self.next_order()
                elif order is None:
                    order = self.next_order()
                timer = VirtualTimer(when, order, participant, self.timers, what)
                participant.timer = timer
                self.timers.push(timer)

    @staticmethod
    def _need_not_wait(participant: Participant, parker: VirtualParker | None) -> bool:
        if parker is None:
            woken, participant.woken = participant.woken, False
            return woken
        permit, parker.permit = parker.permit, False
        return permit

    def unpark(self, parker: VirtualParker) -> None:
        """End a wait, or the next one there."""
        if parker.participant is None:
            parker.permit = True
        else:
            self._ready(parker.participant)

    def wake_loop(self, participant: Participant) -> None:
        """Have an event loop look again."""
        if participant.state is State.PARKED and participant.parker is None:
            self._ready(participant)
        else:
            participant.woken = True

    def pause(self, participant: Participant, state: State, what: str) -> None:
        """Let a participant do something that time does not wait for."""
        if participant.counted:
            participant.state = state
            participant.what = what
            self._running.pop(participant, None)

    def resume(self, participant: Participant) -> None:
        """End such a pause; its turn comes in time."""
        if participant.state in (State.HELD, State.AWAY):
            participant.state = State.QUEUED
            self._queue.append(participant)
        else:
            participant.grant()

    def yield_turn(self, participant: Participant) -> None:
        """Let those who are queued go first, if there are any."""
        if self._queue and participant.counted:
            self._running.pop(participant, None)
            participant.state = State.QUEUED
            self._queue.append(participant)
        else:
            participant.grant()

    def interrupted(self, participant: Participant) -> None:
        """Run a participant whose wait was broken off by an interrupt."""
        if participant.state is State.PARKED:
            self._end_wait(participant)
        self._unqueue(participant)
        participant.state = State.RUNNING
        if participant.counted:
            self._running[participant] = None
        for one in self.members:  # it may have come in the middle of another change
            if one.state is State.QUEUED and one not in self._queue:
                self._queue.append(one)

    # What follows

    def _ready(
        self,
        participant: Participant,
        *,
        timed_out: bool = False,
        error: BaseException | None = None,
    ) -> None:
        self._end_wait(participant)
        participant.timed_out = timed_out
        participant.error = error
        self.guests.pop(participant, None)
        if participant.counted:
            participant.state = State.QUEUED
            self._queue.append(participant)
        else:
            participant.grant()

    @staticmethod
    def _end_wait(participant: Participant) -> None:
        parker: Any = participant.parker
        if parker is not None:
            parker.participant = participant.parker = None
        if participant.timer is not None:
            participant.timer.cancel()
            participant.timer = None

    def _move(self, now: int, seconds: float) -> None:
        self.now = max(self.now, now)
        self.seconds = max(self.seconds, seconds)

    def _run_next(self) -> None:
        participant = self._queue.popleft()
        self.given += 1
        participant.last_turn = self.given
        self._running[participant] = None
        participant.grant()
