"""The one thread of the package: calls back at given times, for what must be pushed.

It starts with its first entry, ends after a few idle seconds and begins empty in a forked child.
Nothing here takes a lock that a caller could meet: work comes through a mailbox whose ``put`` may
interrupt itself, so entries can be added and cancelled in signal handlers and finalizers.

Invariants:
    * The heap belongs to the thread that has the role; others read its length at the most.
    * Of several threads started at once one takes the role. Who gives it up looks for mail after
      that; who posts mail looks for the role after that. One of the two sees the other.
    * A callback has one owner: whoever pops it from its timer's box, to run or to cancel it.
    * While the heap holds an entry the thread lives, so who has an entry can post another
      without starting a thread.
"""

from __future__ import annotations

import heapq
import queue
import sys
import threading
from collections import deque

from .._process import after_fork
from .._unraisable import report
from .._validation import LONGEST_WAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_IDLE_SECONDS = 5.0
_SWEEP_FROM = 64


class Timer:
    """One entry of the scheduler: calls back once, unless cancelled before."""

    __slots__ = ("_box", "_scheduler", "when")

    def __init__(self, scheduler: Scheduler, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self._scheduler = scheduler
        self._box = [callback]

    @property
    def spent(self) -> bool:
        """Whether it was run or cancelled."""
        return not self._box

    def cancel(self) -> bool:
        """Prevent the call; True if this is what prevented it."""
        try:
            self._box.pop()
        except IndexError:
            return False
        self._scheduler.note_cancelled()
        return True

    def run(self) -> None:
        """Call back, unless cancelled; an error is reported and goes no further."""
        try:
            callback = self._box.pop()
        except IndexError:
            return
        try:
            callback()
        except BaseException as error:  # noqa: BLE001 - no error of a callback ends the thread
            report(error, "Exception in a scheduled callback", callback)


class _Mailbox:
    """A queue for one reader. Its ``put`` never waits, and may interrupt itself.

    So is a ``queue.SimpleQueue``; but before Python 3.13 the ``get`` of that waits for ever where
    its time-out has passed before it begins to wait.
    """

    def __init__(self) -> None:
        self._items: deque[Timer | None] = deque()
        self._bell = threading.Lock()
        self._bell.acquire()

    def put(self, item: Timer | None) -> None:
        self._items.append(item)
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it has rung already

    def get(self, timeout: float) -> Timer | None:
        while not self._items:  # the bell may still ring for an item that was taken since
            if not self._bell.acquire(timeout=timeout) and not self._items:
                raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Timer | None:
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class Scheduler:
    """A heap of timers and the daemon thread that runs them."""

    def __init__(
        self, monotonic: Callable[[], float], *, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._monotonic = monotonic
        self._idle_seconds = idle_seconds
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        self._mailbox = _Mailbox()
        self._heap: list[tuple[float, int, Timer]] = []
        self._added = 0
        self._cancelled: deque[None] = deque()
        self._role: dict[str, threading.Thread] = {}

    @property
    def thread(self) -> threading.Thread | None:
        """The thread, while there is one."""
        return self._role.get("thread")

    def __len__(self) -> int:
        """Entries held, cancelled ones that have not been swept out included."""
        return len(self._heap) + self._mailbox.qsize()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Have ``callback()`` called in the thread at ``when``.

        Raises:
            RuntimeError: The thread could not be started; the callback will not be called.
        """
        timer = Timer(self, when, callback)
        try:
            self._mailbox.put(timer)
            self._ensure_thread()
        except BaseException:
            timer.cancel()
            raise
        return timer

    def note_cancelled(self) -> None:
        """Count a cancelled entry; wake the thread to sweep when they are all, or over half."""
        self._cancelled.append(None)
        cancelled, entries = len(self._cancelled), len(self)
        if cancelled >= min(_SWEEP_FROM, entries) and cancelled * 2 > entries:
            self._cancelled.clear()
            if self._role:
                self._mailbox.put(None)

    def _ensure_thread(self) -> None:
        if self._role:
            return
        if sys.is_finalizing():
            raise RuntimeError("the interpreter is shutting down: no scheduler thread can start")
        # Several callers may start one at once: each thread takes the role itself, or ends.
        threading.Thread(target=self._run, name="backoff_ticker-scheduler", daemon=True).start()

    def _run(self) -> None:
        me = threading.current_thread()
        try:
            while self._role.setdefault("thread", me) is me:
                self._run_due()
                if len(self._cancelled) * 2 > len(self._heap):
                    self._sweep()
                if not self._receive() and not self._heap:
                    # Whoever posts from here on starts a thread; who posted before may not have.
                    self._role = {}
                    if self._mailbox.empty():
                        return
        finally:
            if self._role.get("thread") is me:
                self._role = {}

    def _run_due(self) -> None:
        heap = self._heap
        now = self._monotonic()
        while heap and heap[0][0] <= now:
            heapq.heappop(heap)[2].run()

    def _receive(self) -> bool:
        """Wait for mail, at most until the next due time or the end of patience; False: none."""
        timeout = self._idle_seconds
        if self._heap:
            timeout = max(0.0, min(self._heap[0][0] - self._monotonic(), LONGEST_WAIT))
        try:
            first = self._mailbox.get(timeout=timeout)
        except queue.Empty:
            return False
        self._take_in(first)
        while not self._mailbox.empty():
            self._take_in(self._mailbox.get_nowait())
        return True

    def _take_in(self, timer: Timer | None) -> None:
        if timer is None:
            self._sweep()
        elif not timer.spent:
            self._added += 1
            heapq.heappush(self._heap, (timer.when, self._added, timer))

    def _sweep(self) -> None:
        self._cancelled.clear()
        self._heap = [entry for entry in self._heap if not entry[2].spent]
        heapq.heapify(self._heap)
