"""How a thread and a coroutine wait until a source wakes them; the only file that uses asyncio.

A signal handler may raise where a loop jumps back. CPython 3.12 to 3.14 take that place out of the
``try`` around some loops: after a condition at the end of a turn, or at the head of the loop. So a
wait in a ``try`` that must undo something is a loop ``while True`` that ends with a call or await.
"""

from __future__ import annotations

import sys
import threading
from sys import modules
from types import coroutine

from .._unraisable import report
from ..clock import Alarm
from ._trio import current_run, trio_runs
from ._wait_set import NO_DEADLINE, THREADS, Waiter, WaitSet, check_stack, failure_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Generator
    from typing import Any

    from ..clock import Clock, Parker, TimerHandle


_PACKAGE = __name__.partition(".")[0]


class ThreadWaiter(Waiter):
    __slots__ = ("parker",)

    def __init__(self, clock: Clock, what: str, sources: Collection[WaitSet], limit: float) -> None:
        super().__init__(None, sources)
        self.limit: float = limit
        # The main thread has a domain of its own: a signal handler can delay it for any time in the
        # middle of its wait, and no other thread must wait for that.
        if threading.get_ident() != threading.main_thread().ident:
            self.domain: int = THREADS
        self.parker: Parker = clock.parker(what)

    def wake(self) -> bool:
        error = failure_of(self.parker.unpark)
        if error is not None:  # it must not leave others waiting
            report(error, "Exception in unpark() of a clock's parker", self.parker)
        return error is None


class LoopWaiter(Waiter, Alarm):
    """A coroutine in one wait; ``park_coroutine()`` shows how to use it."""

    __slots__ = ("_heap", "_number", "_timer", "future", "when")

    loop: asyncio.AbstractEventLoop  # type: ignore[mutable-override]  # it always has one

    def __init__(self, sources: Collection[WaitSet] = (), limit: float = NO_DEADLINE) -> None:
        super().__init__(current_loop(), sources)
        self.limit: float = limit
        self.future: asyncio.Future[None] | None = None
        self._timer: TimerHandle | None = None

    def await_next(
        self, clock: Clock, recheck: Callable[[LoopWaiter], float | None]
    ) -> asyncio.Future[None] | None:
        """Register everywhere; return what to await before the next call; None: it is over."""
        if not self._cancel_timer():
            return None  # the deadline has passed
        if self.future is not None and recheck(self) is None:
            return None  # it was woken: see WaitQueue
        self.register()
        deadline = recheck(self)
        if deadline is None:
            return None
        # A wake-up that comes before the future exists is a call into this loop, and so it runs
        # after the caller has begun to await the future.
        self.future = future = self.loop.create_future()
        if deadline != NO_DEADLINE:
            self._timer = clock.call_at(deadline, self, loop=self.loop)
        if self._timer is not self:  # which its loop holds
            self.hold()
        return future

    def rest(self) -> None:
        """End the wait, leave the last of at most two sources, and rest there. May be repeated.

        So the next wait need not enter the other one. Until its loop is set again, it keeps no
        loop alive, and a wake-up does nothing.
        """
        self._cancel_timer()
        self.release()
        self.future = self.loop = None  # type: ignore[assignment]
        sources: Any = self.sources
        if (place := self.place) is not None:
            sources[-1].leave(place.following or place, self.domain, self)

    def end(self) -> None:
        """Leave everything. May be repeated."""
        self._cancel_timer()
        self.unregister()
        self.sources: Collection[WaitSet] = ()  # its cancelled timer may stay in the heap

    def _cancel_timer(self) -> bool:
        """Have no timer; False if it has fired already."""
        timer, self._timer = self._timer, None
        return timer is None or timer.cancel()

    def wake(self) -> bool:
        future = self.future
        # Only a task of the loop may do so at once: elsewhere this may be a signal handler, while
        # the loop sleeps. Without a future, it is one inside of park_coroutine(), or a finalizer.
        if future is not None and not future.done() and _runs_task_of(self.loop):
            self.fire()
            return True
        return super().wake()

    def fire(self) -> None:
        future = self.future
        if future is not None and not future.done():
            try:
                future.set_result(None)
            except modules["asyncio"].InvalidStateError:
                pass  # a signal handler resolved it after done() was called


def _running_loop() -> asyncio.AbstractEventLoop | None:
    # Another thread may be importing asyncio just now: then no loop runs here.
    running_loop = getattr(modules.get("asyncio"), "_get_running_loop", None)
    return None if running_loop is None else running_loop()


def loop_runs() -> bool:
    """Whether an event loop runs in this thread: a wait here blocks its tasks."""
    return _running_loop() is not None or trio_runs()


def _runs_task_of(loop: Any) -> bool:  # a loop, or a run of trio
    """Whether this is called in a task of ``loop``; None, of a waiter that rests, has none."""
    if loop is None:
        return False
    if _running_loop() is loop:
        return modules["asyncio"].current_task(loop) is not None
    return current_run() is loop


def warn_if_loop_runs(what: str, instead: str, *, ends: bool = True) -> None:
    """Warn, at the line of the user's code, that a wait blocks the event loop of this thread.

    Raises:
        RuntimeError: The wait has no end of its own, and what would end it may need this loop.
    """
    if not loop_runs():
        return
    if not ends:
        raise RuntimeError(f"{what} would block the event loop of this thread; use {instead}")
    import warnings

    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    text = f"{what} blocks the event loop of this thread; use {instead}"
    warnings.warn(text, RuntimeWarning, level)


def park_thread(
    clock: Clock,
    what: str,
    instead: str,
    sources: Collection[WaitSet],
    recheck: Callable[[ThreadWaiter], float | None],
    limit: float = NO_DEADLINE,
    *,
    ends: bool = False,
) -> None:
    """Block this thread until ``recheck`` returns None, or the deadline that it returned passes.

    ``recheck`` is called once the waiter is registered with all ``sources``, and after each
    wake-up. It returns None if there is no need to wait, a deadline on ``clock``, or
    ``NO_DEADLINE``. The waiter has ``limit``, the time at which the caller gives up. Errors and
    clocks call the wait ``what``. Where an event loop runs, a wait warns to use ``instead``, unless
    that is empty; it raises if it has no deadline and does not say that it ``ends`` by itself.
    """
    check_stack()
    waiter = ThreadWaiter(clock, what, sources, limit)
    try:
        woken = True
        while True:
            if not woken or (waiter.place is not None and recheck(waiter) is None):
                return  # it is late; or it was woken, and looks first: see WaitQueue
            waiter.register()
            deadline = recheck(waiter)
            if deadline is None:
                return
            if instead:
                warn_if_loop_runs(what, instead, ends=ends or deadline != NO_DEADLINE)
            woken = waiter.parker.park(None if deadline == NO_DEADLINE else deadline)
    finally:
        try:
            waiter.unregister()
        except BaseException:  # not by complete(): an interrupt may come on entry to that
            waiter.unregister()
            raise


async def park_coroutine(
    clock: Clock,
    sources: Collection[WaitSet],
    recheck: Callable[[LoopWaiter], float | None],
    limit: float = NO_DEADLINE,
) -> None:
    """Suspend this coroutine as ``park_thread`` blocks a thread."""
    waiter = LoopWaiter(sources, limit)
    try:
        while True:
            future = waiter.await_next(clock, recheck)
            if future is None:
                return
            await future
    finally:  # as in park_thread
        try:
            waiter.end()
        except BaseException:
            waiter.end()
            raise


def current_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread; RuntimeError if there is none."""
    # First: a run of trio may be the guest of a loop.
    if "trio" in modules and (run := current_run()) is not None:
        return run  # type: ignore[return-value]  # it has the methods that are called
    try:
        loop: asyncio.AbstractEventLoop = modules["asyncio"].get_running_loop()
    except (AttributeError, KeyError, RuntimeError):  # not imported, or only in part; no loop runs
        raise RuntimeError(
            "this coroutine needs a running asyncio event loop, or a task of trio, and there is "
            "none in this thread"
        ) from None
    tell = _tell_of_wait
    if tell is not None:
        tell(loop)
    return loop


_tell_of_wait: Callable[[asyncio.AbstractEventLoop], None] | None = None


def on_loop_wait(callback: Callable[[asyncio.AbstractEventLoop], None] | None) -> None:
    """Call ``callback(loop)`` whenever a coroutine is about to wait; None: no longer."""
    global _tell_of_wait  # noqa: PLW0603
    _tell_of_wait = callback


def current_task() -> asyncio.Task[object]:
    """Return the task that runs in this thread; RuntimeError if there is none."""
    loop = current_loop()
    task: asyncio.Task[object] | None = modules["asyncio"].current_task(loop)
    if task is None:
        raise RuntimeError("no task is running")
    return task


def new_cut() -> Any:  # a task, or what has its shape
    """Return what can cancel this task from now on: itself, or in trio a scope around it."""
    run = current_run()
    return current_task() if run is None else run.new_cut()


def cancelled_error() -> type[BaseException]:
    if trio_runs():
        return modules["trio"].Cancelled
    import asyncio

    return asyncio.CancelledError


def shielded() -> Any:  # a context manager of either
    """Return a ``with`` block in which a task that was cancelled can wait.

    asyncio cuts one wait for a cancel, trio every wait.
    """
    if trio_runs():
        return modules["trio"].CancelScope(shield=True)
    from contextlib import nullcontext

    return nullcontext()


def tasks_of_block() -> Any:  # of either
    """Return an ``async with`` block that starts tasks; in trio it waits for their ends."""
    from contextlib import nullcontext

    run = current_run()
    return nullcontext(current_loop()) if run is None else run.new_tasks()


@coroutine
def checkpoint() -> Generator[Any, Any, None]:
    """Let the loop run everything else that is ready, once."""
    if (run := current_run()) is not None:
        yield from run.checkpoint().__await__()
    else:
        current_loop()  # the bare yield is asyncio's: another loop would not understand it
        yield


CHECKPOINT_EVERY = 64
"""A coroutine that never needs to wait awaits ``checkpoint()`` once per this many operations."""
