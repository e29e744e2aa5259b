"""Which clock a thread belongs to, and how it becomes a participant and ceases to be one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from ..clock import current_clocks
from ._current import as_current
from ._kernel import Kernel
from ._parker import VirtualParker, wait_for_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._participant import Participant


def kernel_here() -> Kernel | None:
    """Return the kernel of the virtual clock that this thread belongs to; None: to none."""
    kernel = getattr(current_clocks.get(threading.get_ident()), "_kernel", None)
    return kernel if isinstance(kernel, Kernel) and not kernel.closed else None


@contextmanager
def attached(
    kernel: Kernel, participant: Participant, before_end: Callable[[], object] | None = None
) -> Iterator[None]:
    """Be that participant, in this thread, once its turn has come.

    Args:
        kernel: Whose participant.
        participant: One that was entered.
        before_end: Called before it ends, such as to enter another that takes its place.
    """
    ident = threading.get_ident()
    outer = kernel.by_ident.get(ident)
    participant.ident = ident
    participant.native = threading.get_native_id()
    kernel.by_ident[ident] = participant
    kernel.post(kernel.begin, participant)
    try:
        wait_for_turn(kernel, participant)
        with as_current(kernel.clock):
            yield
    finally:
        if outer is None:
            del kernel.by_ident[ident]
        else:
            kernel.by_ident[ident] = outer
        if before_end is not None:
            before_end()
        kernel.post(kernel.end, participant)


@contextmanager
def counted(kernel: Kernel, participant: Participant) -> Iterator[None]:
    """Have a participant count inside the block, in its own thread, if it does not anyway."""
    kernel.refuse_in_callback("to run a loop, or to have time advance")
    if participant.counted:
        yield
        return
    kernel.enter_new(participant)
    wait_for_turn(kernel, participant)
    try:
        yield
    finally:
        kernel.ask(lambda: kernel.leave(participant))  # done when the block is left


def wait_until(
    kernel: Kernel,
    what: str,
    register: Callable[[Callable[[], object]], Any],
    timeout: float | None,
) -> bool:
    """Wait on the clock for something that ``register`` has a callback called at.

    In the thread that drives the clock by hand a wait with a time-out is over at once where
    nothing happens any more without it.

    Returns:
        Whether it happened within ``timeout`` seconds of the clock.
    """
    parker = VirtualParker(kernel, what, gives_up=timeout is not None)
    register(parker.unpark)
    deadline = None
    if timeout is not None:
        now = kernel.seconds
        deadline = max(now + timeout, nextafter(now, inf)) if timeout > 0.0 else now
    return parker.park(deadline)


def wait_for_end(
    kernel: Kernel, participant: Participant, what: str, timeout: float | None
) -> bool:
    """Wait on the clock until a participant has ended, as ``wait_until()`` does."""

    def register(call: Callable[[], object]) -> None:
        kernel.post(kernel.add_end_callback, participant, call)

    return wait_until(kernel, what, register, timeout)
