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
        queue: Those that wait for their turn: whose state is QUEUED.
        resuming: Participants, counted or not, that go on without a turn of the queue.
        running: Those that have one.
        external: Those that wait for something other than the clock: threads inside ``idle()`` or
            ``external()``, parked event loops that watch file descriptors.
        turns_given: How many turns were given.
    """

    def __init__(self, *, one_at_a_time: bool) -> None:
        self.one_at_a_time: bool = one_at_a_time
        self.members: dict[Participant, None] = {}
        self.queue: deque[Participant] = deque()
        self.resuming: deque[Participant] = deque()
        self.running: dict[Participant, None] = {}
        self.external: dict[Participant, None] = {}
        self.turns_given: int = 0

    def clear(self) -> None:
        """Forget all participants."""
        for known in (
            self.members,
            self.queue,
            self.resuming,
            self.running,
            self.external,
        ):
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
        """Queue a participant for its next turn, unless it is queued."""
        # Both are checked, since an interrupt may come between the two.
        if participant.state is not State.QUEUED or participant not in self.queue:
            participant.state = State.QUEUED
            self.queue.append(participant)

    def let_go_on(self, participant: Participant) -> None:
        """Let a participant go on, once the commands have run: its wait is over, or was none."""
        if participant not in self.resuming:
            self.resuming.append(participant)

    def unqueue(self, participant: Participant) -> None:
        """Take a participant off the queue."""
        for queue in (self.queue, self.resuming):
            if participant in queue:
                queue.remove(participant)

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
        elif participant.state is not State.QUEUED:
            self.let_go_on(participant)

    def yield_turn(self, participant: Participant) -> None:
        """Let the queued participants run first, if there are any."""
        if self.queue and participant.counted:
            self.running.pop(participant, None)
            self.append(participant)
        else:
            self.let_go_on(participant)

    def repair(self) -> None:
        """Wake event loops that an interrupt kept from hearing of their turn; may be repeated."""
        for one in list(self.running):
            if one.break_select is not None:
                one.break_select()

    def give_turns(self, *, paused: bool) -> None:
        """Let all go on that may; if ``paused``, none of the queue."""
        while self.resuming:
            self._let_run(self.resuming, {})  # one that is counted has its turn already
        if not paused:
            while self.queue and not (self.one_at_a_time and self.running):
                self.run_next()

    def run_next(self) -> None:
        """Give a turn to the participant that has been queued longest."""
        participant = self.queue[0]
        self.turns_given += 1
        participant.last_turn = self.turns_given
        self._let_run(self.queue, self.running)

    def _let_run(self, queue: deque[Participant], running: dict[Participant, None]) -> None:
        """Take the first participant off a queue, note it in ``running``, and let it run."""
        participant = queue[0]
        break_select = participant.break_select
        try:
            # ATOMIC: no call until the lock is released. A participant that an interrupt took off
            # the queue, but did not let run, would wait for ever.
            del queue[0]
            running[participant] = None
            participant.state = State.RUNNING
            participant.turn.release()
        except RuntimeError:
            pass  # it was interrupted, and runs
        if break_select is not None:
            break_select()
