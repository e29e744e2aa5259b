"""Threads that are started inside a virtual clock are its participants; their waits for each other.

A thread that waits for another one is woken by a call that tells the clock before it returns. So
the clock needs no help in these cases:

- A join of a participant, one with a timeout of any thread, and a wait for a future, are waits on
  the clock.
- With ``patch_time=True``, so is every wait of a participant in ``threading`` and ``queue``.
- A wait without a timeout, of a thread that the code under test has started, is a wait for work:
  time goes on meanwhile, and the thread is queued again by whoever notifies it.

All other waits of a ``Condition`` hold time still. The kernel judges those in a bare lock.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import _base
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...clock import current_clocks
from .._errors import ParticipantAborted, VirtualDeadlockError
from .._kernel import Kernel, kernel_here
from .._participants import Participant, State
from .._thread_side import attached, wait_for_end, wait_until
from ._patches import around
from ._time_module import kernel_of_waits, seconds, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._patches import Original

PARTICIPANT = "_backoff_ticker_participant"  # holds the kernel and participant of a thread

# The modules whose functions run in threads of their own that are no participants, and why.
_COUNTED_OTHERWISE = {
    "asyncio.unix_events": "waits for a process that a loop has started, which holds time",
    "backoff_ticker.clock._scheduler": "waits for timers of the system clock",
    "concurrent.futures.process": "waits for the processes of a pool, whose jobs hold time",
    "concurrent.futures.thread": "waits for jobs of a pool, which are participants themselves",
    "pytest_timeout": "ends a test that takes too long in real time",
}


def _is_counted_otherwise(thread: threading.Thread) -> bool:
    runs = (vars(thread).get("_target"), vars(thread).get("function"), type(thread).run)
    return any(getattr(one, "__module__", None) in _COUNTED_OTHERWISE for one in runs)


@contextmanager
def _real_waits() -> Iterator[None]:
    """Leave the waits of this thread as they are, inside the block."""
    kernel = kernel_here()
    here = kernel.known_here() if kernel is not None else None
    if here is not None:
        here.waits_really = True
    try:
        yield
    finally:
        if here is not None:
            here.waits_really = False


def start_participant(
    kernel: Kernel,
    thread: threading.Thread,
    start: Callable[[Any], None] = threading.Thread.start,
    *,
    is_task: bool = False,
) -> Participant:
    """Start a thread as a participant, which counts from now on; the one of a task has to end."""
    participant = Participant(thread.name)
    participant.daemon = thread.daemon and not is_task
    own, work = vars(thread), thread.run

    def run() -> None:
        own.pop("run", None)
        try:
            with attached(kernel, participant):
                work()
        except (ParticipantAborted, VirtualDeadlockError):
            pass  # the driver of the clock gets an error as well

    own["run"] = run
    own[PARTICIPANT] = kernel, participant
    try:
        kernel.post(kernel.enter, participant)
        with _real_waits():  # for the thread to begin
            start(thread)
    except BaseException:
        if not participant.begun:
            own.pop("run", None)
        kernel.post(kernel.give_up_start, participant)
        raise
    return participant


def _start(original: Original, thread: threading.Thread) -> None:
    kernel = kernel_here()
    if kernel is None or PARTICIPANT in vars(thread) or _is_counted_otherwise(thread):
        with _real_waits():
            original(thread)
    else:
        start_participant(kernel, thread, original)


def _join(original: Original, thread: threading.Thread, timeout: float | None = None) -> None:
    kernel, participant = vars(thread).get(PARTICIPANT, (None, None))
    here = kernel_here()
    if here is None or (kernel is here and participant.state is State.ENDED):
        original(thread, timeout)
    elif kernel is here:
        if wait_for_end(here, participant, f"Thread.join({thread.name})", timeout):
            original(thread)  # its last lines
    else:
        member = here.member_here()
        if member is None or timeout is None or member.state is State.EXTERNAL:
            original(thread, timeout)
        else:
            original(thread, min(timeout, 0.0))  # raises what a join that makes no sense does
            _join_outsider(here, thread, timeout)


def _join_outsider(kernel: Kernel, thread: threading.Thread, timeout: float) -> None:
    """Wait on the clock for a thread that it does not know, whose end is seen within 10 ms."""
    with ExitStack() as checks:

        def register(wake: Callable[[], object]) -> None:
            wakes = [wake]

            def check() -> None:
                if wakes and not thread.is_alive():
                    wakes.pop()()

            checks.enter_context(kernel.commands.checking(check))

        wait_until(kernel, f"Thread.join({thread.name})", register, timeout)


# Waits in Condition


class _Notice:
    """Stands for the lock that ``notify()`` releases to end one wait."""

    wake: Callable[[], object]
    over: bool = False

    def release(self) -> None:
        if self.over:
            raise RuntimeError("a wait ends once")  # as a lock does
        self.wake()  # again, by the next notify(), if this is interrupted
        self.over = True


def _wait_on_clock(
    kernel: Kernel, condition: Any, what: str, timeout: float | None, *, for_work: bool
) -> bool:
    """Do what ``Condition.wait()`` does, on the clock."""
    notice = _Notice()
    saved: list[Any] = []

    def register(wake: Callable[[], object]) -> None:
        notice.wake = wake
        condition._waiters.append(notice)
        saved.append(condition._release_save())

    try:
        woken = wait_until(kernel, what, register, timeout, for_work=for_work)
    finally:
        if saved:
            condition._acquire_restore(saved[0])
        if not notice.over and notice in condition._waiters:
            condition._waiters.remove(notice)
    return woken or notice.over


def _future_call() -> str | None:
    """Return the function of ``concurrent.futures`` that waits here; None: another one does."""
    frame = sys._getframe(3)  # behind _wait() and what around() made of it
    if frame.f_globals is vars(threading) and frame.f_back is not None:  # Event.wait()
        frame = frame.f_back
    return frame.f_code.co_name if frame.f_globals is vars(_base) else None


def _wait(original: Original, condition: Any, timeout: float | None = None) -> bool:
    limit = None if timeout is None or timeout >= threading.TIMEOUT_MAX else timeout
    kernel = kernel_here()
    known = kernel.known_here() if kernel is not None else None
    if kernel is None or not condition._is_owned() or (known and known.waits_really):
        return bool(original(condition, timeout))
    called = _future_call()
    if called is not None:
        if called == "as_completed" and limit == 0.0:
            raise TimeoutError("futures unfinished")  # else it gives up once its end is past
        what = f"Future.{called}()" if called in ("result", "exception") else "futures.wait()"
        return _wait_on_clock(kernel, condition, what, limit, for_work=False)
    on_clock = kernel_of_waits() is not None and (limit is None or limit > 0.0)
    here = kernel.by_ident.get(threading.get_ident()) if limit is None else None
    for_work = here is not None and here.state is State.RUNNING
    if on_clock or for_work:
        woken = _wait_on_clock(kernel, condition, "Condition.wait()", limit, for_work=for_work)
        if kernel.closed:  # a daemon thread that outlives the clock is on the system's
            current_clocks.pop(threading.get_ident(), None)
        return woken
    with _real_waits():
        return bool(original(condition, timeout))


def _time_of_futures(original: Any) -> SimpleNamespace:
    return SimpleNamespace(monotonic=telling(seconds, kernel_here)(original.monotonic))


THREAD_PATCHES = [
    (threading.Thread, "start", around(_start)),
    (threading.Thread, "join", around(_join)),
    (threading.Condition, "wait", around(_wait)),
    (_base, "time", _time_of_futures),  # by which they measure timeouts
]
