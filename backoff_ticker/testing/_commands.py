"""The thread of a virtual clock: it alone changes the clock's state, by commands that it is sent.

CPython runs signal handlers in the main thread only, so none ever interrupts a command. To send one
is a single operation in C, which a signal handler or a finalizer may call anywhere.
"""

from __future__ import annotations

import sys
import threading
import weakref
from _thread import start_new_thread
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from ..clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOK_INTERVAL = 0.01  # seconds between two looks at real time


def block_on(lock: threading.Lock) -> None:
    """Acquire a lock.

    Not by its ``acquire()``, in whose place tools that look for blocking calls in coroutines put
    their own. An event loop that is parked blocks nobody.
    """
    lock.__enter__()


class Commands:
    """Commands on their way to the thread that runs them one after the other.

    The thread refers to the owner weakly, and ends once the owner is collected. After commands it
    calls the owner's ``after_commands()``; every 10 ms also ``look()``, with the time in seconds.
    """

    def __init__(self, owner: Any) -> None:
        self.errors: list[BaseException] = []  # of callbacks, which no step could raise
        self.queue: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = SimpleQueue()
        self.put: Callable[..., None] = self.queue.put
        self._owner = weakref.ref(owner)
        self._vacancy = [True]  # one of the threads that were started pops it, and stays
        self._ident: int | None = None
        self.ended: bool = False  # then commands run at once
        self._checks: list[Callable[[], object]] = []

    def post(self, command: Callable[..., object], *args: object) -> None:
        """Have a command run. From any thread, signal handler or finalizer; waits for nothing."""
        if self.ended:
            command(*args)
            return
        if self._vacancy:
            self.start()
        self.put((command, args))

    def start(self) -> None:
        if self._vacancy and not self.ended:
            start_new_thread(self._serve, ())

    def _serve(self) -> None:
        try:
            self._vacancy.pop()
        except IndexError:
            return
        sys.settrace(threading.gettrace())  # as threading.Thread does, for debuggers
        self._ident = threading.get_ident()
        now, looked_at = SystemClock().monotonic, 0.0
        while (owner := self._owner()) is not None:
            self._run_queued()
            try:
                for check in self._checks:
                    check()
                owner.after_commands()
                real = now()
                if real - looked_at >= LOOK_INTERVAL:
                    looked_at = real
                    owner.look(real)
                    owner.after_commands()
            except Exception as error:  # as below
                self.errors.append(error)
            if owner.ended:
                break
            interval = None if owner.closed else LOOK_INTERVAL  # those who wait post when they end
            del owner
            self._run_next(interval)
        self.ended = True
        self._run_queued()

    def _run_queued(self) -> None:
        while not self.queue.empty():
            self._run_next(0.0)  # it may be none: a query runs them, too, once the clock has ended

    def _run_next(self, timeout: float | None) -> None:
        try:
            command, args = self.queue.get(timeout=timeout)
        except Empty:
            return
        try:
            command(*args)
        except Exception as error:  # a wait must not last forever because of it
            self.errors.append(error)

    # Questions

    def query(self, function: Callable[[], Any]) -> Any:
        """Return the result of ``function()``, called while nothing changes, or raise its error."""
        if self.ended or threading.get_ident() == self._ident:
            return function()
        self.start()
        results: list[Any] = []
        errors: list[Exception] = []
        done = threading.Lock()
        block_on(done)

        def command() -> None:
            try:
                results.append(function())
            except Exception as error:  # raised below
                errors.append(error)
            done.release()

        self.put((command, ()))
        if self.ended:  # meanwhile
            self._run_queued()
        block_on(done)
        if errors:
            raise errors[0]
        return results[0]

    @contextmanager
    def checking(self, check: Callable[[], object]) -> Iterator[None]:
        """Inside the block, call ``check()`` after each command, and every 10 ms."""
        self.query(lambda: self._checks.append(check))
        try:
            yield
        finally:
            self.query(lambda: self._checks.remove(check))

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``condition()`` holds between commands; at most ``timeout`` real seconds."""
        met = threading.Lock()
        block_on(met)

        def check() -> None:
            if met.locked() and condition():
                met.release()

        # Not by asking again and again: a thread that does so is never stalled.
        with self.checking(check):
            return met.acquire(timeout=timeout)
