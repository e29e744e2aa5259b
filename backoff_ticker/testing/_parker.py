"""Where a thread waits on a virtual clock."""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING

from .._validation import as_number
from ._errors import ClockUsageError
from ._participant import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._kernel import Kernel
    from ._participant import Participant


class VirtualParker:
    """A ``Parker`` of a virtual clock.

    Attributes:
        what: Names the wait in reports.
        gives_up: Whether a wait that nothing can end is over, rather than an error.
        permit: Whether the next wait is over already.
        participant: Who waits here.
    """

    __slots__ = ("_kernel", "gives_up", "participant", "permit", "what")

    def __init__(self, kernel: Kernel, what: str, *, gives_up: bool = False) -> None:
        self._kernel = kernel
        self.what: str = what
        self.gives_up: bool = gives_up
        self.permit: bool = False
        self.participant: Participant | None = None

    def park(self, deadline: float | None) -> bool:
        """Wait until unparked (True) or until ``deadline`` (False), in seconds of the clock.

        Raises:
            UntrackedThreadError: This thread is none of the clock's.
            ClockUsageError: A callback of a timer waits, or the thread that drives the clock by
                hand does, and nothing would end its wait.
            VirtualDeadlockError: Nothing can end the wait.
        """
        kernel = self._kernel
        kernel.refuse_in_callback(self.what)
        if kernel.closed and threading.get_ident() not in kernel.by_ident:
            raise ClockUsageError(f"a wait on a virtual clock that is closed ({self.what})")
        participant = kernel.here(self.what)
        away = participant.state is State.AWAY
        when = None if deadline is None or deadline == inf else as_number("deadline", deadline)
        try:
            wait_for_turn(
                kernel,
                participant,
                lambda: kernel.post(kernel.park, participant, self, when, None, self.what),
            )
        finally:
            if away:
                kernel.post(kernel.pause, participant, State.AWAY, participant.what)
        return not participant.timed_out

    def unpark(self) -> None:
        """End the wait, or the next one. From any thread, signal handler or finalizer."""
        self._kernel.post(self._kernel.unpark, self)


def wait_for_turn(
    kernel: Kernel, participant: Participant, begin: Callable[[], object] | None = None
) -> None:
    """Wait in the participant's own thread until it may go on.

    Args:
        kernel: Whose participant.
        participant: Who waits.
        begin: What makes it wait. An interrupt in the middle of it leaves a participant that runs.

    Raises:
        BaseException: What the wait is to raise.
    """
    try:
        if begin is not None:
            kernel.unlock()
            begin()
        participant.turn.acquire()
    except BaseException:
        kernel.run_after_interrupt(participant)
        raise
    error, participant.error = participant.error, None
    if error is not None:
        raise error
