"""Threads that are started inside a virtual clock are its participants; joins wait on it."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import thread as pools
from typing import TYPE_CHECKING, Any

from ...clock import Scheduler
from .._errors import ParticipantAborted, VirtualDeadlockError
from .._kernel import kernel_here
from .._thread_side import attached, wait_for_end
from ..participants._participant import PARTICIPANT, Participant, State
from ._conditions import real_waits
from ._helpers import is_of_others

if TYPE_CHECKING:
    from collections.abc import Callable

_pool_worker = pools._worker


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(thread: threading.Thread) -> None:
        kernel = kernel_here()
        target = getattr(thread, "_target", None)
        is_scheduler = isinstance(getattr(target, "__self__", None), Scheduler)
        # A process that a loop waits for in a thread of asyncio's holds time, not that thread.
        waits_for_process = getattr(target, "__name__", "") == "_do_waitpid"
        # A job of a pool counts, not its worker. The clock's own threads count only as tasks.
        counts_anyway = target is _pool_worker or PARTICIPANT in vars(thread)
        starter = sys._getframe(1)
        # The time-out of a test is in real time, whatever happens in the test.
        ends_test = starter.f_globals.get("__name__") == "pytest_timeout"
        if kernel is None or is_scheduler or waits_for_process or ends_test or counts_anyway:
            with real_waits():  # for the thread to begin
                original(thread)
            return
        participant = Participant(thread.name, home=kernel)
        participant.helper = is_of_others(starter)
        participant.daemon = thread.daemon
        own = vars(thread)  # a `run` in here takes precedence over that of a subclass
        replaced = own.get("run")

        def run() -> None:
            restore()
            try:
                with attached(kernel, participant):
                    thread.run()
            except (ParticipantAborted, VirtualDeadlockError):
                pass  # the driver of the clock gets an error as well

        def restore() -> None:
            if replaced is None:
                own.pop("run", None)
            else:
                own["run"] = replaced

        own["run"] = run
        own[PARTICIPANT] = participant
        try:
            kernel.enter(participant)
            with real_waits():
                original(thread)
        except BaseException:
            if not participant.begun:
                restore()
            kernel.post(kernel.parking.give_up_start, participant)
            raise

    return start


def _joining(original: Callable[..., Any]) -> Callable[..., Any]:
    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        participant: Participant | None = vars(thread).get(PARTICIPANT)
        kernel = kernel_here()
        if (
            kernel is None
            or participant is None
            or participant.home is not kernel
            or participant.state is State.ENDED
        ):
            original(thread, timeout)
            return
        if wait_for_end(kernel, participant, f"Thread.join({thread.name})", timeout):
            original(thread)  # its last lines

    return join


THREAD_PATCHES = [
    (threading.Thread, "start", _starting),
    (threading.Thread, "join", _joining),
]
