"""How the waits of participants on a virtual clock begin and end.

Invariant: who wakes a participant queues it before anything else can look, so nobody is ever on the
way to running without being counted.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from ._errors import Unwind
from ._nanoseconds import in_nanoseconds, in_seconds
from ._participant import Participant, State
from ._timers import TimerHeap, VirtualTimer
from ._turns import POLLS_A_TURN, Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._parker import VirtualParker

_LAST_OF_ALL = 1 << 62
"""The order of the driver's own wake-up: last at its time."""


class Waits(Turns):
    """The time of a virtual clock, its timers, and who waits for them.

    Attributes:
        now: The time in nanoseconds.
        seconds: The same as it is read: never less than what was due, exactly, and has fired.
        timers: What is due.
        next_order: Returns the place in the order of those who are due at the same time.
        guests: Those that wait and are not counted.
        closing: Whether waits are broken off.
        progress: How many waits have begun, and participants ended.
    """

    def __init__(
        self, start: int, driver: Participant, *, strict: bool, one_at_a_time: bool
    ) -> None:
        super().__init__(driver, strict=strict, one_at_a_time=one_at_a_time)
        self.now: int = start
        self.seconds: float = in_seconds(start)
        self.timers: TimerHeap = TimerHeap()
        self.next_order: Callable[[], int] = count().__next__
        self.guests: dict[Participant, None] = {}
        self.closing: bool = False
        self.progress: int = 0

    def clear(self) -> None:
        """Know of no timer any more, either."""
        super().clear()
        self.timers = TimerHeap()
        self.guests.clear()

    # Operations

    def park(
        self,
        participant: Participant,
        parker: VirtualParker | None,
        when: float | None,
        order: int | None,
        what: str,
    ) -> None:
        """Have a participant wait; ``turn`` is released once it need not.

        Args:
            participant: Who waits.
            parker: Where; None: in its event loop.
            when: Until when, in seconds of the clock; None: without end.
            order: Its place among those due at the same time; None: behind all there are.
            what: Names the wait in reports.
        """
        participant.timed_out = False
        if participant.state is State.AWAY:
            self._come_back(participant)
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
            if participant.polls % POLLS_A_TURN:
                participant.grant()
            else:
                self.yield_turn(participant)
        else:
            self._begin_wait(participant, parker, when, order, what)

    def _come_back(self, participant: Participant) -> None:
        """Count one again that was idle: it waits on the clock, or need not."""
        self.outside.pop(participant, None)
        if participant.counted:
            self._running[participant] = None

    def _begin_wait(
        self,
        participant: Participant,
        parker: VirtualParker | None,
        when: float | None,
        order: int | None,
        what: str,
    ) -> None:
        self.note_progress()
        participant.polls = 0
        participant.state = State.PARKED
        participant.what = what
        participant.parker = parker
        if parker is not None:
            parker.participant = participant
        if not participant.counted:
            self.guests[participant] = None
        self._running.pop(participant, None)
        self.outside.pop(participant, None)
        if participant.has_news is not None:
            self.outside[participant] = None
        if when is not None:
            if participant is self.driver:
                order = _LAST_OF_ALL + self.next_order()
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

    def end(self, participant: Participant) -> None:
        """Forget a participant that has ended, and tell those who wait for that."""
        self._off(participant)
        self._end_wait(participant)
        self.note_progress()
        participant.state = State.ENDED
        at_end, participant.at_end = participant.at_end, []
        for call in at_end:
            call()

    def give_up_start(self, participant: Participant) -> None:
        """Forget a participant whose start failed, unless its thread is there after all."""
        if not participant.begun:
            self.end(participant)

    def break_off(self) -> None:
        """Break off every wait from now on."""
        self.closing = True

    def note_progress(self) -> None:
        """Note that somebody does what it is waited for."""
        self.progress += 1

    def add_end_callback(self, participant: Participant, call: Callable[[], object]) -> None:
        """Have ``call()`` called once ``participant`` has ended."""
        if participant.state is State.ENDED:
            call()
        else:
            participant.at_end.append(call)

    def run_out_of_turn(self, participant: Participant) -> None:
        """Run a participant whose wait was broken off by an interrupt."""
        if participant.state is State.PARKED:
            self._end_wait(participant)
        self._unqueue(participant)
        self.guests.pop(participant, None)
        participant.error = None
        participant.state = State.RUNNING
        if participant.counted:
            self._running[participant] = None
        self.mend()  # it may have come in the middle of another change

    # How a wait ends

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

    def _end_wait(self, participant: Participant) -> None:
        self.outside.pop(participant, None)
        parker: Any = participant.parker
        if parker is not None:
            parker.participant = participant.parker = None
        if participant.timer is not None:
            participant.timer.cancel()
            participant.timer = None

    def _move(self, now: int, seconds: float) -> None:
        self.now = max(self.now, now)
        self.seconds = max(self.seconds, seconds)

    # In the participant's own thread

    def run_after_interrupt(self, participant: Participant) -> None:
        """Run a participant, in its own thread, whose wait an interrupt has broken off."""
        self.unlock()
        self.post(self.run_out_of_turn, participant)
        while participant.state is not State.RUNNING:
            self.post(self.run_out_of_turn, participant)  # another thread is about to carry it out
        participant.turn.acquire(blocking=False)
