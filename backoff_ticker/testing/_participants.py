"""Participants: what each of them does, whose turn it is, and how waits begin and end.

A participant is a thread, or the event loop that runs in it. Only commands of the kernel change
anything here.
"""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from ._errors import ParticipantAborted
from ._timers import TimerHeap, VirtualTimer, in_seconds

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

POLLS_PER_TURN = 128  # after so many waits in a row that end before they begin, others get a turn


class State(Enum):
    """What a participant is doing. The docstring of ``_kernel`` shows the transitions."""

    QUEUED = "waits for its turn"
    RUNNING = "runs"
    PARKED = "waits on the clock"
    EXTERNAL = "waits for something else"
    ENDED = "has ended"


class ParkingPlace:
    """Where a participant waits: the kernel's half of a parker, or of an event loop's selector."""

    selects: bool = False  # whether it is a loop, which waits for file descriptors, too

    def __init__(self, what: str, *, gives_up: bool = False, for_work: bool = False) -> None:
        self.what: str = what  # in reports
        # Whether a driver's wait that nothing can end returns, instead of raising.
        self.gives_up: bool = gives_up
        # Whether another thread ends the wait, perhaps one that the clock does not know. Then the
        # wait is not part of a deadlock.
        self.for_work: bool = for_work
        self.permit: bool = False  # whether an early unpark() has already ended the next wait
        self.participant: Participant | None = None  # that waits here

    def has_news(self) -> bool:
        """Whether file descriptors are ready."""
        return False

    def break_select(self) -> None:
        """End the wait for file descriptors."""


class Participant:
    """One thread of execution, from the clock's point of view."""

    ident: int | None = None
    native: int | None = None  # its identifier in the operating system
    daemon: bool = False  # whether the code under test has made it a daemon thread
    begun: bool = False
    state: State = State.RUNNING
    what: str = ""
    place: ParkingPlace | None = None  # where it waits, or has waited last
    timer: VirtualTimer | None = None
    timed_out: bool = False
    error: BaseException | None = None  # that its wait raises
    interrupted: bool = False  # a signal has ended its wait; the kernel may not know yet
    polls: int = 0  # how many waits in a row were over before they began
    tasks: Callable[[], list[asyncio.Task[object]]] | None = None  # of the loop that it runs
    aside: bool = False  # found to wait for another thread, in a lock or a queue
    waits_really: bool = False  # for something that the clock does not know; holds time meanwhile
    works_idle: bool = False  # computes inside idle(), and nobody waits for that
    switches: tuple[bytes, ...] = ()  # these two belong to note_activity()
    active_looks: int = 0
    stalled_at: int | None = None  # when it last got deadlock errors, and
    stalls: int = 0  # how many in a row at that time

    def __init__(self, name: str, *, counted: bool = True) -> None:
        self.name: str = name
        self.counted: bool = counted  # False for the thread that drives a clock by hand
        self.turn: threading.Lock = threading.Lock()  # released when the participant may run
        self.turn.acquire()
        self.at_end: list[Callable[[], object]] = []

    def note_thread(self) -> None:
        self.ident, self.native = threading.get_ident(), threading.get_native_id()

    @property
    def waits_for_work(self) -> bool:
        if self.state is State.PARKED:
            return self.place is not None and self.place.for_work
        return self.aside


class Participants:
    """The participants of one clock, the current time, and the timers."""

    def __init__(self, start: int, driver: Participant, *, one_at_a_time: bool) -> None:
        self.one_at_a_time: bool = one_at_a_time
        self.driver: Participant = driver
        self.now: int = start  # in nanoseconds
        self.seconds: float = in_seconds(start)  # the same as it is read
        self.timers: TimerHeap = TimerHeap()
        self.members: dict[Participant, None] = {}  # all that are counted
        self.queue: deque[Participant] = deque()  # for a turn, first come first served
        self.running: dict[Participant, None] = {}
        # Those that wait for something real: threads inside idle() or external(), threads set
        # aside, parked event loops that watch file descriptors.
        self.external: dict[Participant, None] = {}
        self.guests: dict[Participant, None] = {}  # those that wait and are not counted
        self.closing: bool = False  # whether waits are aborted
        self.turns_given: int = 0
        self.progress: int = 0  # how many waits have begun, and participants ended

    def move(self, now: int) -> None:
        if now > self.now:
            self.now = now
            self.seconds = in_seconds(now)

    # Turns

    def enter(self, participant: Participant) -> None:
        """Count a participant from now on; it runs when its turn comes."""
        self.members[participant] = None
        participant.counted = True
        self._append(participant)

    def begin(self, participant: Participant) -> None:
        """Note that its thread runs; count it again if its start was given up."""
        participant.begun = True
        if participant.state is State.ENDED:
            self.enter(participant)

    def leave(self, participant: Participant) -> None:
        participant.counted = False
        for known in (self.members, self.external, self.running):
            known.pop(participant, None)
        if participant in self.queue:
            self.queue.remove(participant)

    def _append(self, participant: Participant) -> None:
        if participant.state is not State.QUEUED:
            self._come_back(participant)
            participant.state = State.QUEUED
            self.queue.append(participant)

    def _come_back(self, participant: Participant) -> None:
        participant.aside = False
        self.external.pop(participant, None)

    def let_go_on(self, participant: Participant) -> None:
        """Let a participant run without a new turn: its wait was none, or it is not counted."""
        participant.state = State.RUNNING
        if participant.turn.locked():  # else an interrupt has ended its wait
            participant.turn.release()
        if participant.place is not None and participant.place.selects:
            participant.place.break_select()

    def pause(self, participant: Participant, what: str) -> None:
        """End the turn of a participant that is about to do something time does not wait for."""
        if participant.counted:
            participant.aside = participant.works_idle = False
            participant.state = State.EXTERNAL
            participant.what = what
            self.running.pop(participant, None)
            self.external[participant] = None

    def resume(self, participant: Participant) -> None:
        """End such a pause; the participant runs when its turn comes."""
        if participant.state is State.EXTERNAL:
            self._append(participant)
        elif participant.state is not State.QUEUED:
            self.let_go_on(participant)

    def yield_turn(self, participant: Participant) -> None:
        """Let the queued participants run first, if there are any."""
        if self.queue and participant.counted:
            self.running.pop(participant, None)
            self._append(participant)
        else:
            self.let_go_on(participant)

    def give_turns(self) -> None:
        # When the clock is closed, their order does not matter any more.
        while self.queue and (self.closing or not (self.one_at_a_time and self.running)):
            self.run_next()

    def run_next(self) -> None:
        """Give a turn to the participant that has been queued longest."""
        participant = self.queue.popleft()
        self.turns_given += 1
        self.running[participant] = None
        self.let_go_on(participant)

    # Waits

    def park(self, participant: Participant, place: ParkingPlace, when: float | None) -> None:
        """Make a participant wait until ``when``, in seconds of the clock; None: no limit."""
        participant.place = place
        self._come_back(participant)
        participant.timed_out = False
        if participant.counted:  # a wait on the clock counts inside idle(), too
            self.running[participant] = None
        if place.permit or self.closing:
            participant.error = None if place.permit else ParticipantAborted()
            place.permit = False
            self.let_go_on(participant)
        elif when is not None and when <= self.seconds:
            participant.timed_out = True
            participant.polls += 1
            if participant.polls % POLLS_PER_TURN:
                self.let_go_on(participant)
            else:
                self.yield_turn(participant)
        else:
            self._wait_at(place, participant, when)

    def _wait_at(self, place: ParkingPlace, participant: Participant, when: float | None) -> None:
        self.progress += 1
        participant.polls = 0
        participant.state = State.PARKED
        participant.what = place.what
        place.participant = participant
        if not participant.counted:
            self.guests[participant] = None
        self.running.pop(participant, None)
        if place.selects:
            self.external[participant] = None
        if when is not None:
            end = partial(self.end_wait, participant, timed_out=True)
            timer = VirtualTimer(when, place.what, self.timers, end, sleeper=participant)
            participant.timer = timer
            self.timers.push(timer, last=participant is self.driver)

    def unpark(self, place: ParkingPlace) -> None:
        """End the wait at a place, or the next one there."""
        if place.participant is None:
            place.permit = True
        else:
            self.end_wait(place.participant)

    def end_wait(
        self, one: Participant, *, timed_out: bool = False, error: BaseException | None = None
    ) -> None:
        """End a participant's wait, and queue it."""
        self._detach(one)
        one.timed_out = timed_out
        one.error = error
        if one.counted:
            self._append(one)
        else:
            self.let_go_on(one)

    def _detach(self, participant: Participant) -> None:
        """Take a participant off its place and its timer."""
        self._come_back(participant)
        self.guests.pop(participant, None)
        if participant.timer is not None:
            participant.timer.cancel()
            participant.timer = None
        if participant.place is not None and participant.place.participant is participant:
            participant.place.participant = None

    def run_out_of_turn(self, participant: Participant) -> None:
        """Let a participant run: a signal handler has ended its wait, or it was set aside."""
        self._detach(participant)
        if participant in self.queue:
            self.queue.remove(participant)
        participant.error = None
        participant.state = State.RUNNING
        if participant.counted:
            self.running[participant] = None

    # The end of a participant

    def end(self, participant: Participant) -> None:
        """Forget a participant that has ended, and call its end callbacks."""
        self.leave(participant)
        self._detach(participant)
        self.progress += 1
        participant.state = State.ENDED
        while participant.at_end:
            participant.at_end.pop(0)()

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
