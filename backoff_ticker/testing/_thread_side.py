"""The thread's side of the kernel: how a thread begins to be counted, waits, and ends.

All of these run in the participant's own thread. Each posts a command and blocks until the kernel
grants the participant its turn.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from .._validation import as_number
from ..clock import current_clocks, later
from ._commands import block_on
from ._errors import ClockUsageError
from ._kernel import Kernel, entry
from ._participants import ParkingPlace, Participant, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class VirtualParker(ParkingPlace):
    """A ``Parker`` of a virtual clock."""

    def __init__(
        self, kernel: Kernel, what: str, *, gives_up: bool = False, for_work: bool = False
    ) -> None:
        super().__init__(what, gives_up=gives_up, for_work=for_work)
        self._kernel = kernel

    def park(self, deadline: float | None) -> bool:
        """Wait until unparked (True) or until ``deadline`` (False), in seconds of the clock."""
        kernel = self._kernel
        kernel.check_not_in_callback(self.what)
        if kernel.closed and threading.get_ident() not in kernel.by_ident:
            raise ClockUsageError(f"a wait on a closed virtual clock ({self.what})")
        participant = kernel.participant_here(self.what)
        was_external = participant.state is State.EXTERNAL and not participant.aside
        when = None if deadline is None or deadline == inf else as_number("deadline", deadline)
        park = partial(kernel.post, kernel.park, participant, self, when)
        try:
            kernel.commands.start()
            wait_for_turn(kernel, participant, park)
        finally:
            if was_external:  # back inside idle()
                kernel.query(lambda: kernel.pause(participant, participant.what))
        return not participant.timed_out

    def unpark(self) -> None:
        """End the wait, or the next one. From any thread, signal handler or finalizer."""
        self._kernel.post(self._kernel.unpark, self)


def wait_for_turn(
    kernel: Kernel, participant: Participant, begin: Callable[[], object] | None = None
) -> None:
    """Block until a participant may run, which is this thread; raise what its wait was ended with.

    ``begin`` posts the command that makes it wait. If an interrupt hits it, the participant runs.
    """
    try:
        if begin is not None:
            begin()
        block_on(participant.turn)  # at once if the wait was over before it began
    except BaseException:
        participant.interrupted = True  # a store: no signal handler runs before it
        kernel.query(lambda: kernel.run_out_of_turn(participant))  # done when this returns
        participant.turn.acquire(blocking=False)  # the turn may have been granted before
        participant.interrupted = False
        if participant is kernel.driver:
            kernel.interrupt.act()
        raise
    error, participant.error = participant.error, None
    if error is not None:
        raise error


def wait_until(
    kernel: Kernel,
    what: str,
    register: Callable[[Callable[[], object]], object],
    timeout: float | None,
    *,
    for_work: bool = False,
) -> bool:
    """Wait on the clock until the argument of ``register`` is called; return whether in time."""
    parker = VirtualParker(kernel, what, gives_up=timeout is not None, for_work=for_work)
    register(parker.unpark)
    return parker.park(None if timeout is None else later(kernel.seconds, max(timeout, 0.0)))


def wait_for_end(kernel: Kernel, one: Participant, what: str, timeout: float | None) -> bool:
    """Wait on the clock until a participant has ended, as ``wait_until()`` does."""
    register = partial(kernel.post, kernel.add_end_callback, one)
    return wait_until(kernel, what, register, timeout)


@contextmanager
def attached(kernel: Kernel, participant: Participant) -> Iterator[None]:
    """Make this thread a participant that was entered before, until the end of the block."""
    participant.note_thread()
    try:
        with entry(kernel.by_ident, participant):
            kernel.post(kernel.begin, participant)
            wait_for_turn(kernel, participant)
            with entry(current_clocks, kernel.clock):
                yield
    finally:
        kernel.post(kernel.end, participant)


def tracked(kernel: Kernel, function: Callable[..., Any]) -> Callable[..., Any]:
    name = getattr(function, "__name__", "tracked")
    key = object()
    kernel.post(kernel.expected.setdefault, key, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        participant = None
        if kernel.member_here() is None and not kernel.runs_callback_here():
            participant = Participant(name)
            kernel.post(kernel.enter, participant)
        kernel.post(kernel.expected.pop, key, None)
        with nullcontext() if participant is None else attached(kernel, participant):
            return function(*args, **kwargs)

    return call


@contextmanager
def counted(kernel: Kernel, participant: Participant) -> Iterator[None]:
    """Count a participant inside the block, unless it is counted already. In its own thread."""
    kernel.check_not_in_callback("to run a loop, or to have time advance")
    if participant.counted:
        yield
        return
    try:
        kernel.post(kernel.enter, participant)
        wait_for_turn(kernel, participant)
        yield
    finally:
        kernel.query(lambda: kernel.leave(participant))  # done when the block is left


@contextmanager
def waiting_externally(kernel: Kernel, one: Participant | None, what: str) -> Iterator[None]:
    """Let others run and time pass inside the block, in which a participant waits for ``what``."""
    if one is None or (one.state is State.EXTERNAL and not one.aside):
        yield
        return
    try:
        kernel.query(lambda: kernel.pause(one, what))  # done then: waits here go by the state
        yield
    finally:
        wait_for_turn(kernel, one, partial(kernel.post, kernel.resume, one))
