"""The participants that time waits for, and whose turn it is to run."""

from __future__ import annotations

from collections import deque

from ._participant import Participant, State

POLLS_PER_TURN = 128
"""After this many waits in a row that end before they begin, the others get a turn."""


class RunQueue:
    """The counted participants of one clock, first come first served.

    Attributes:
        one_at_a_time: Whether a turn is given only while no participant has one.
        members: All counted participants.
        queue: Those that wait for their turn.
        running: Those that have one.
        external: Those that wait for something other than the clock: threads inside ``idle()`` or
            ``external()``, parked event loops that watch file descriptors.
        turns_given: How many turns were given.
    """

    def __init__(self, *, one_at_a_time: bool) -> None:
        self.one_at_a_time: bool = one_at_a_time
        self.members: dict[Participant, None] = {}
        self.queue: deque[Participant] = deque()
        self.running: dict[Participant, None] = {}
        self.external: dict[Participant, None] = {}
        self.turns_given: int = 0

    def clear(self) -> None:
        """Forget all participants."""
        for known in (self.members, self.queue, self.running, self.external):
            known.clear()

    def enter(self, participant: Participant) -> None:
        """Count a participant from now on; it runs when its turn comes."""
        self.members[participant] = None
        participant.counted = True
        self.append(participant)

    def begin(self, participant: Participant) -> None:
        """Note that its thread runs; count it again if its start was given up."""
        participant.begun = True
        if participant.state is State.ENDED:
            self.enter(participant)

    def leave(self, participant: Participant) -> None:
        """Stop counting a participant that goes on running."""
        participant.counted = False
        self.remove(participant)
        participant.state = State.RUNNING

    def remove(self, participant: Participant) -> None:
        """Forget a participant."""
        self.members.pop(participant, None)
        self.external.pop(participant, None)
        self.running.pop(participant, None)
        self.unqueue(participant)

    def append(self, participant: Participant) -> None:
        """Queue a participant for its next turn."""
        participant.state = State.QUEUED
        self.queue.append(participant)

    def unqueue(self, participant: Participant) -> None:
        """Take a participant off the queue."""
        if participant in self.queue:
            self.queue.remove(participant)

    def pause(self, participant: Participant, state: State, what: str) -> None:
        """End the turn of a participant that is about to do something time does not wait for."""
        if participant.counted:
            participant.state = state
            participant.what = what
            self.running.pop(participant, None)
            if state is State.EXTERNAL:
                participant.works_idle = False
                self.external[participant] = None

    def resume(self, participant: Participant) -> None:
        """End such a pause; the participant runs when its turn comes."""
        if participant.state in (State.HELD, State.EXTERNAL, State.DRIVING):
            self.external.pop(participant, None)
            self.append(participant)
        else:
            participant.grant()

    def yield_turn(self, participant: Participant) -> None:
        """Let the queued participants run first, if there are any."""
        if self.queue and participant.counted:
            self.running.pop(participant, None)
            self.append(participant)
        else:
            participant.grant()

    def repair(self) -> None:
        """Queue again participants that an interrupted transition has lost."""
        for one in self.members:
            if one.state is State.QUEUED and one not in self.queue:
                self.running.pop(one, None)
                self.queue.append(one)

    def run_next(self) -> None:
        """Give a turn to the participant that has been queued longest."""
        participant = self.queue.popleft()
        self.turns_given += 1
        participant.last_turn = self.turns_given
        self.running[participant] = None
        participant.grant()
