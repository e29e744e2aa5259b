"""The scheduler: one daemon thread that calls back at given times, where no reader waits itself.

It starts with its first call, ends after a few idle seconds, and begins empty in a forked child.
No caller can block on a lock: a call is posted in a way that a signal handler may interrupt by
posting another, so calls can be scheduled and cancelled in signal handlers and finalizers.

Invariants:
    * Only the thread that is the runner touches the heap; others read its length.
    * Of several threads started at once, one becomes the runner. A runner that ends resigns first
      and then copies what is posted; a caller posts first and then checks for a runner. A post
      comes before or after a copy, so one of the two sees the other.
    * A callback belongs to the runner or to ``cancel()``, whichever pops it from its call.
    * The runner stays while the heap holds a call.
"""

from __future__ import annotations

import heapq
import sys
import threading
from collections import deque
from contextvars import Context
from functools import partial

from .._process import after_fork
from .._unraisable import report
from .._validation import LONGEST_WAIT
from ._time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MISSED_SIGNAL = 0.25
"""Seconds for which the main thread, which runs the signal handlers, waits for a lock at a time: a
signal that comes just before CPython blocks there does not end the wait."""

_SWEEP_FROM = 64


class SystemParker:
    """A raw lock that its one waiter acquires again: the cheapest wait that can be interrupted."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def park(self, deadline: float | None) -> bool:
        acquire = self._lock.acquire
        longest = LONGEST_WAIT
        if threading.get_ident() == threading.main_thread().ident:
            longest = _MISSED_SIGNAL
        elif deadline is None:
            return acquire()  # wakes sooner than an acquire with a timeout
        while True:
            remaining = longest if deadline is None else deadline - monotonic()
            if remaining <= 0.0:
                return acquire(blocking=False)
            if acquire(timeout=min(remaining, longest)):
                return True

    def unpark(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # unparked already


def start_thread(target: Callable[[], object], name: str) -> None:
    """Call ``target()`` in a new thread, which does not keep the process alive."""
    threading.Thread(target=target, name=name, daemon=True).start()


class PendingCall:
    """A callback for a time. The clock takes it, or ``cancel()`` does, whichever comes first."""

    __slots__ = ("_callbacks", "when")

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when: float = when
        self._callbacks = [callback]

    @property
    def is_taken(self) -> bool:
        return not self._callbacks

    def take(self) -> Callable[[], object] | None:
        """Return the callback; the next call returns None. Any thread may do so."""
        try:
            return self._callbacks.pop()
        except IndexError:
            return None

    def fire(self) -> None:
        callback = self.take()
        if callback is not None:
            callback()

    def cancel(self) -> bool:
        return self.take() is not None


class ScheduledCall(PendingCall):
    """A callback that the scheduler calls once, unless it is cancelled before."""

    __slots__ = ("_scheduler",)

    def __init__(self, scheduler: Scheduler, when: float, callback: Callable[[], object]) -> None:
        super().__init__(when, callback)
        self._scheduler = scheduler

    def fire(self) -> None:
        callback = self.take()
        if callback is not None:
            try:
                callback()
            except BaseException as error:  # no error of a callback ends the thread
                report(error, "Exception in a scheduled callback", callback)

    def cancel(self) -> bool:
        prevented = super().cancel()
        if prevented:
            self._scheduler.note_cancelled()
        return prevented


class Scheduler:
    """A heap of scheduled calls and the daemon thread that makes them."""

    def __init__(self, monotonic: Callable[[], float], *, idle_seconds: float = 5.0) -> None:
        self._monotonic = monotonic
        self._idle_seconds = idle_seconds
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        self._posted: deque[ScheduledCall] = deque()
        self._parker = SystemParker()
        self._heap: list[tuple[float, int, ScheduledCall]] = []
        self._added = 0
        self._cancelled = 0  # about how many: threads that count at once may count one
        self._sweep_wanted = False
        self._runner: dict[str, threading.Thread] = {}

    @property
    def thread(self) -> threading.Thread | None:
        return self._runner.get("thread")

    def __len__(self) -> int:
        """Calls held, including cancelled ones that have not been swept out."""
        return len(self._heap) + len(self._posted)

    def call_at(self, when: float, callback: Callable[[], object]) -> ScheduledCall:
        """Call ``callback()`` in the thread at ``when``; not if that thread cannot be started."""
        call = ScheduledCall(self, when, callback)
        try:
            self._posted.append(call)
            self._parker.unpark()
            self._ensure_thread()
        except BaseException:
            call.cancel()
            raise
        return call

    def note_cancelled(self) -> None:
        """Count a cancelled call; wake the thread for a sweep when over half are cancelled."""
        self._cancelled = cancelled = self._cancelled + 1
        held = len(self)
        if not self._sweep_wanted and cancelled >= min(_SWEEP_FROM, held) and cancelled * 2 > held:
            self._sweep_wanted = True
            self._parker.unpark()

    def _ensure_thread(self) -> None:
        if self._runner:
            return
        if sys.is_finalizing():
            raise RuntimeError("the interpreter is shutting down: no scheduler thread can start")
        # Several callers may start one at once: each thread becomes the runner, or ends.
        # It works for all, so it takes over no context: it would, without the interpreter's lock.
        start_thread(partial(Context().run, self._serve), "backoff_ticker-scheduler")

    def _serve(self) -> None:
        me = threading.current_thread()
        try:
            while self._runner.setdefault("thread", me) is me:
                self._run_due()
                self._sweep()
                if not self._wait() and not self._heap:
                    # A caller that posts after the copy starts a thread; one that posted before
                    # may have seen the old runner and started none.
                    self._runner.pop("thread", None)
                    if not self._posted.copy():
                        return
        finally:
            if self._runner.get("thread") is me:
                self._runner.pop("thread", None)
                if len(self):  # somebody has raised an exception in this thread
                    self._ensure_thread()

    def _run_due(self) -> None:
        now = self._monotonic()
        # The heap is another one in a child that a call forks.
        while (heap := self._heap) and heap[0][0] <= now:
            heap[0][2].fire()
            heapq.heappop(heap)

    def _sweep(self) -> None:
        """Remove cancelled calls from the heap if they are over half of it."""
        if self._sweep_wanted or self._cancelled * 2 > len(self._heap):
            self._sweep_wanted = False
            self._cancelled = 0
            self._heap = [entry for entry in self._heap if not entry[2].is_taken]
            heapq.heapify(self._heap)

    def _wait(self) -> bool:
        """Wait for a posted call, a sweep or the next due time; False if idle for too long."""
        until = self._heap[0][0] if self._heap else self._monotonic() + self._idle_seconds
        woken = bool(self._posted) or self._parker.park(until)
        while self._posted:
            call = self._posted.popleft()
            if not call.is_taken:
                self._added += 1
                heapq.heappush(self._heap, (call.when, self._added, call))
        return woken
