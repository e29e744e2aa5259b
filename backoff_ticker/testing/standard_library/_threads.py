"""Threads that are started inside a virtual clock are its participants; joins wait on it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from .._errors import ParticipantAborted, VirtualDeadlockError
from .._kernel import kernel_here
from .._participants import Participant, State, real_waits
from .._thread_side import attached, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable

PARTICIPANT = "_backoff_ticker_participant"
"""The attribute of a thread that holds its participant; None: it is none."""

_IN_REAL_TIME = {
    "asyncio.unix_events": "waits for a process that a loop has started",
    "backoff_ticker.clock._scheduler": "waits for timers of the system clock",
    "concurrent.futures.process": "waits for the processes of a pool, whose jobs hold time",
    "concurrent.futures.thread": "waits for jobs of a pool, which are participants themselves",
    "pytest_timeout": "ends a test that takes too long",
}
"""The modules whose functions run in threads of their own that are no participants, and why."""


def _runs_in_real_time(thread: threading.Thread) -> bool:
    """Whether a thread waits for something real, by the function that it runs."""
    runs = (vars(thread).get("_target"), vars(thread).get("function"), type(thread).run)
    return any(getattr(one, "__module__", None) in _IN_REAL_TIME for one in runs)


def start_untracked(thread: threading.Thread) -> None:
    """Start a thread without making it a participant."""
    vars(thread)[PARTICIPANT] = None
    thread.start()


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(thread: threading.Thread) -> None:
        kernel = kernel_here()
        own = vars(thread)  # a `run` in here takes precedence over that of a subclass
        if kernel is None or PARTICIPANT in own or _runs_in_real_time(thread):
            with real_waits():  # for the thread to begin
                original(thread)
            return
        participant = Participant(thread.name, home=kernel)
        participant.daemon = thread.daemon
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
            kernel.post(kernel.participants.give_up_start, participant)
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
