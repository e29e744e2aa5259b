"""The time of a virtual clock, and how waits for it begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...waiting import FREE, acquire, claim_of
from .._errors import ParticipantAborted
from ._participant import Participant, State
from ._run_queue import POLLS_PER_TURN
from ._timers import TimerHeap, VirtualTimer, in_nanoseconds, in_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._participant import ParkingPlace
    from ._run_queue import RunQueue

_LAST_OF_ALL = 1 << 62
"""Added to the order of the driver's own timers: they fire last at their time."""


class Parking:
    """The current time, the timers, and the participants that wait for them.

    Attributes:
        now: The time in nanoseconds.
        seconds: The time as it is read. At least the exact ``when`` of every timer that has fired,
            which can be a fraction of a nanosecond later than ``now``.
        timers: The pending timers.
        guests: The participants that wait and are not counted.
        closing: Whether waits are aborted.
        progress: The number of waits begun plus that of participants ended.
    """

    def __init__(self, start: int, run_queue: RunQueue, driver: Participant) -> None:
        self.now: int = start
        self.seconds: float = in_seconds(start)
        self.timers: TimerHeap = TimerHeap()
        self.guests: dict[Participant, None] = {}
        self.closing: bool = False
        self.progress: int = 0
        self._run_queue = run_queue
        self._driver = driver
        self._orders_given = 0
        self._claim = claim_of(self)

    def clear(self) -> None:
        """Forget all timers and guests."""
        self.timers = TimerHeap()
        self.guests.clear()

    def move(self, now: int, seconds: float) -> None:
        """Move the time forward; it never goes back."""
        self.now = max(self.now, now)
        self.seconds = max(self.seconds, seconds)

    def next_order(self) -> int:
        """Return the order of the next timer among those that are due with it. In any thread."""
        claim = self._claim
        acquire(claim)
        try:
            self._orders_given = order = self._orders_given + 1
        finally:
            claim[FREE] = True
        return order

    # Beginning

    def park(
        self,
        participant: Participant,
        place: ParkingPlace | None,
        when: float | None,
        order: int | None,
        what: str,
    ) -> None:
        """Make a participant wait; its turn is granted once the wait is over.

        Args:
            participant: The participant.
            place: Where it waits; None: in its event loop.
            when: Until when, in seconds of the clock; None: no limit.
            order: Its order among the timers due at the same time; None: after all others.
            what: The name of the wait in reports.
        """
        run_queue = self._run_queue
        if participant.state is State.QUEUED or participant in run_queue.resuming:
            return  # repeated after an interrupt: it waits no more
        participant.timed_out = False
        if participant.state is State.EXTERNAL:
            # A wait on the clock inside idle(): the participant is counted while it lasts.
            run_queue.external.pop(participant, None)
            if participant.counted:
                run_queue.running[participant] = None
        if self.closing:
            participant.error = ParticipantAborted()
            run_queue.let_go_on(participant)
        elif participant.woken if place is None else place.permit:
            run_queue.let_go_on(participant)
            if place is None:
                participant.woken = False
            else:
                place.permit = False
        elif when is not None and in_nanoseconds(when) <= self.now:
            self.move(self.now, when)
            participant.timed_out = True
            participant.polls += 1
            if participant.polls % POLLS_PER_TURN:
                run_queue.let_go_on(participant)
            else:
                run_queue.yield_turn(participant)
        else:
            self._begin_wait(participant, place, when, order, what)

    def _begin_wait(
        self,
        participant: Participant,
        place: ParkingPlace | None,
        when: float | None,
        order: int | None,
        what: str,
    ) -> None:
        run_queue = self._run_queue
        self.progress += 1
        participant.polls = 0
        participant.state = State.PARKED
        participant.what = what
        participant.place = place
        if place is not None:
            place.participant = participant
        if not participant.counted:
            self.guests[participant] = None
        run_queue.running.pop(participant, None)
        run_queue.external.pop(participant, None)
        if participant.has_news is not None:
            run_queue.external[participant] = None
        if when is not None:
            if participant is self._driver:
                order = _LAST_OF_ALL + self.next_order()
            elif order is None:
                order = self.next_order()
            timer: Any = participant.timer
            if timer is None:  # else this is repeated after an interrupt
                timer = VirtualTimer(when, order, participant, self.timers, what)
                participant.timer = timer
            self.timers.push(timer)

    # Ending

    def unpark(self, place: ParkingPlace) -> None:
        """End the wait at a place, or the next one there."""
        if place.participant is None:
            place.permit = True
        else:
            self.end_wait(place.participant)

    def wake_loop(self, participant: Participant) -> None:
        """Make an event loop look for new calls."""
        if participant.state is State.PARKED and participant.place is None:
            self.end_wait(participant)
        else:
            participant.woken = True

    def end_wait(
        self,
        participant: Participant,
        *,
        timed_out: bool = False,
        error: BaseException | None = None,
    ) -> None:
        """End a participant's wait, and queue it."""
        participant.timed_out = timed_out
        participant.error = error
        if participant.counted:
            self._run_queue.append(participant)
        else:
            self._run_queue.let_go_on(participant)
        self._detach(participant)

    def _detach(self, participant: Participant) -> None:
        """Take a participant off its place and its timer. May be repeated."""
        self._run_queue.external.pop(participant, None)
        self.guests.pop(participant, None)
        if participant.timer is not None:
            participant.timer.cancel()
            participant.timer = None
        place = participant.place
        if place is not None:
            place.participant = participant.place = None

    def repair(self) -> None:
        """Complete ends of waits that an interrupt has cut short; may be repeated."""
        for participant in [*self._run_queue.queue, *self._run_queue.resuming]:
            self._detach(participant)

    def run_out_of_turn(self, participant: Participant) -> None:
        """Let a participant run after an interrupt has ended its wait."""
        self._detach(participant)
        self._run_queue.unqueue(participant)
        participant.error = None
        participant.state = State.RUNNING
        if participant.counted:
            self._run_queue.running[participant] = None

    # The end of a participant

    def end(self, participant: Participant) -> None:
        """Forget a participant that has ended, and call its end callbacks."""
        self._run_queue.remove(participant)
        self._detach(participant)
        self.progress += 1
        participant.state = State.ENDED
        while participant.at_end:
            participant.at_end[0]()
            del participant.at_end[0]

    def give_up_start(self, participant: Participant) -> None:
        """Forget a participant whose thread could not be started, unless the thread runs."""
        if not participant.begun:
            self.end(participant)

    def add_end_callback(self, participant: Participant, callback: Callable[[], object]) -> None:
        """Call ``callback()`` once ``participant`` has ended, or now if it has."""
        if participant.state is State.ENDED:
            callback()
        else:
            participant.at_end.append(callback)
