"""Who takes part in a virtual clock, and whose turn it is to run."""

from __future__ import annotations

import threading
from collections import deque

from ._errors import UntrackedThreadError
from ._inbox import Inbox
from ._participant import Participant, State

POLLS_A_TURN = 128
"""How often in a row a participant may find that it need not wait before the others run."""


class Turns(Inbox):
    """The participants of a virtual clock, and which of them run.

    Attributes:
        driver: The thread that drives the clock.
        strict: Whether only participants, and the driver, may wait.
        members: Those that are counted.
        by_ident: Those that have begun, by their thread.
        outside: Those that wait for what no clock knows.
        turns_given: How many turns were given.
    """

    def __init__(self, driver: Participant, *, strict: bool, one_at_a_time: bool) -> None:
        super().__init__()
        self.driver: Participant = driver
        self.strict: bool = strict
        self.members: dict[Participant, None] = {}
        self.by_ident: dict[int, Participant] = {}
        self.outside: dict[Participant, None] = {}
        self.turns_given: int = 0
        self._one_at_a_time = one_at_a_time
        self._running: dict[Participant, None] = {}
        self._queue: deque[Participant] = deque()

    def clear(self) -> None:
        """Know of no participant any more, either."""
        super().clear()
        for known in (self.members, self.by_ident, self.outside, self._running, self._queue):
            known.clear()

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

    # Operations

    def enter(self, participant: Participant) -> None:
        """Count a participant from now on; it runs when its turn comes."""
        self.members[participant] = None
        participant.counted = True
        participant.state = State.QUEUED
        self._queue.append(participant)

    def begin(self, participant: Participant) -> None:
        """Note that its thread is there; count it again if it was given up meanwhile."""
        participant.begun = True
        if participant.state is State.ENDED:
            self.enter(participant)

    def leave(self, participant: Participant) -> None:
        """Do not count it any more."""
        participant.counted = False
        self._off(participant)
        participant.state = State.RUNNING

    def _off(self, participant: Participant) -> None:
        self.members.pop(participant, None)
        self.outside.pop(participant, None)
        self._running.pop(participant, None)
        self._unqueue(participant)

    def _unqueue(self, participant: Participant) -> None:
        if participant in self._queue:
            self._queue.remove(participant)

    def pause(self, participant: Participant, state: State, what: str) -> None:
        """Let a participant do something that time does not wait for."""
        if participant.counted:
            participant.state = state
            participant.what = what
            self._running.pop(participant, None)
            if state is State.AWAY:
                participant.works_idle = False
                self.outside[participant] = None

    def resume(self, participant: Participant) -> None:
        """End such a pause; its turn comes in time."""
        if participant.state in (State.HELD, State.AWAY, State.DRIVING):
            self.outside.pop(participant, None)
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

    def mend(self) -> None:
        """Queue again those whom an interrupt in the middle of a change has lost."""
        for one in self.members:
            if one.state is State.QUEUED and one not in self._queue:
                self._running.pop(one, None)
                self._queue.append(one)

    def _run_next(self) -> None:
        """Give the one that has been queued longest its turn."""
        participant = self._queue.popleft()
        self.turns_given += 1
        participant.last_turn = self.turns_given
        self._running[participant] = None
        participant.grant()
