"""How a thread and a coroutine wait until a source wakes them; the only file that uses asyncio.

``park_thread`` and ``park_coroutine`` take the same four steps: register with every source, check
whether there is a need to wait, park, and always leave every source.

A signal handler may raise where a loop jumps back. CPython 3.12 to 3.14 take that place out of the
``try`` around some loops: after a condition at the end of a turn, or at the head of the loop. So
the waits here and in channels and tickers are all loops ``while True`` that end with a call.
"""

from __future__ import annotations

import threading
from sys import modules

from .. import _process
from .._unraisable import report
from ..clock import Alarm
from ._wait_set import NO_DEADLINE, THREADS, Waiter, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Generator
    from typing import Final

    from ..clock import Clock, TimerHandle
    from ._wait_set import Place, WaitSet


class ThreadWaiter(Waiter):
    """A thread in one wait.

    The main thread has a wake domain of its own: a signal handler can delay it for any time in the
    middle of its wait, and no other thread must wait for that.
    """

    __slots__ = ("_parker",)

    def __init__(
        self,
        clock: Clock,
        what: str,
        sources: Collection[WaitSet] = (),
        limit: float = NO_DEADLINE,
    ) -> None:
        super().__init__(None, sources, limit)
        if threading.get_ident() != threading.main_thread().ident:
            self.domain: int = THREADS
        self._parker = clock.parker(what)

    def park(self, deadline: float) -> bool:
        """Wait until woken (True) or until ``deadline`` (False)."""
        return self._parker.park(None if deadline == NO_DEADLINE else deadline)

    def wake(self) -> bool:
        """Unpark the thread."""
        try:
            self._parker.unpark()
        except Exception as error:  # noqa: BLE001 - a clock's error must not leave others waiting
            report(error, "Exception in unpark() of a clock's parker", self._parker)
            return False
        return True


class LoopWaiter(Waiter, Alarm):
    """A coroutine in one wait; ``park_coroutine()`` shows how to use it."""

    __slots__ = ("_heap", "_number", "_timer", "future", "when")

    loop: asyncio.AbstractEventLoop  # type: ignore[mutable-override]  # it always has one

    def __init__(self, sources: Collection[WaitSet] = (), limit: float = NO_DEADLINE) -> None:
        # What super().__init__() does, without the call: the hot path of a coroutine that waits.
        self.loop = loop = current_loop()
        self.domain: int = id(loop)
        self.generation: int = _process.generation
        self.sources: Collection[WaitSet] = sources
        self.place: Place | None = None
        self.limit: float = limit
        self.future: asyncio.Future[None] | None = None
        self._timer: TimerHandle | None = None
        self._number: int | None = None

    def await_next(
        self, clock: Clock, recheck: Callable[[LoopWaiter], float | None]
    ) -> asyncio.Future[None] | None:
        """Register everywhere; return what to await until the next wake-up or deadline.

        None: the wait is over.
        """
        timer, self._timer = self._timer, None
        if timer is not None and ((timer is self and self._number is None) or not timer.cancel()):
            return None  # the deadline has passed
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

    def end(self) -> None:
        """Cancel the timer and leave all sources. May be repeated."""
        self.release()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self.unregister()
        self.sources = ()  # a cancelled timer may stay in the heap for some time

    def __repr__(self) -> str:
        return "<waiting coroutine>"

    def wake(self) -> bool:
        """Resolve the future: at once in a task of its loop, else by ``call_soon_threadsafe()``.

        Outside a task the caller may be a signal handler, while the loop sleeps in its selector.
        Without a future the caller is a signal handler or finalizer inside ``park_coroutine``.
        Both need ``call_soon_threadsafe()``.
        """
        future = self.future
        if future is not None and not future.done() and _runs_task_of(self.loop):
            self.fire()
            return True
        return super().wake()

    def run(self, number: int) -> None:
        # As in the base class, without the call of fire(): the hot path of a coroutine that waits.
        if self._number == number:
            self._number = None
            future = self.future
            if future is not None and not future.done():
                future.set_result(None)

    def fire(self) -> None:
        """Resolve the future, unless it was cancelled or resolved before."""
        future = self.future
        if future is not None and not future.done():
            try:
                future.set_result(None)
            except modules["asyncio"].InvalidStateError:
                pass  # a signal handler resolved it after done() was called


def _runs_task_of(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread is in a task of ``loop``."""
    asyncio = modules["asyncio"]
    return asyncio._get_running_loop() is loop and asyncio.current_task(loop) is not None


def raise_if_loop_runs(what: str, instead: str) -> None:
    """Raise a RuntimeError if an event loop runs in this thread: a wait would block its tasks.

    Args:
        what: Names the wait.
        instead: What a coroutine has to do instead.
    """
    # Another thread may be importing asyncio just now: then no loop runs here.
    running_loop = getattr(modules.get("asyncio"), "_get_running_loop", None)
    if running_loop is not None and running_loop() is not None:
        raise RuntimeError(f"{what} would block the event loop of this thread; use {instead}")


def park_thread(  # noqa: PLR0913, PLR0917 - all that one wait has
    clock: Clock,
    what: str,
    instead: str,
    sources: Collection[WaitSet],
    recheck: Callable[[ThreadWaiter], float | None],
    limit: float = NO_DEADLINE,
) -> None:
    """Block this thread until ``recheck`` returns None, or the deadline that it returned passes.

    Args:
        clock: Measures the wait.
        what: Names the wait in a clock's reports and in errors.
        instead: What a coroutine has to do instead.
        sources: Where to register.
        recheck: Called once registered and after each wake-up. Returns None if there is no need
            to wait, a deadline on ``clock``, or ``NO_DEADLINE``.
        limit: When the caller gives up; ``recheck`` finds it in the waiter.

    Raises:
        RuntimeError: An event loop runs in this thread: the wait would block all its tasks.
    """
    raise_if_loop_runs(what, instead)
    waiter = ThreadWaiter(clock, what, sources, limit)
    try:
        woken = True
        while True:
            if not woken:
                return
            waiter.register()
            deadline = recheck(waiter)
            if deadline is None:
                return
            woken = waiter.park(deadline)
    finally:
        # An interrupt may hit the first call of a finally clause, and the next one its repetition.
        try:
            waiter.unregister()
        except BaseException:
            complete(waiter.unregister)
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
            complete(waiter.end)
            raise


def current_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread.

    Raises:
        RuntimeError: No loop runs here.
    """
    try:
        return _running_loop()
    except RuntimeError:
        raise no_running_loop() from None


def no_running_loop() -> RuntimeError:
    """Return the error for a coroutine that needs asyncio where it does not run."""
    return RuntimeError(
        "this coroutine needs a running asyncio event loop, and there is none in this thread; "
        "under trio or curio, which are not supported, call the function for threads instead, "
        "as in trio.to_thread.run_sync(...)"
    )


def _find_running_loop() -> asyncio.AbstractEventLoop:
    global _running_loop  # noqa: PLW0603 - so that only the first coroutine imports asyncio
    import asyncio

    _running_loop = asyncio.get_running_loop if _on_loop_wait is None else _tell_of_running_loop
    return _running_loop()


def _tell_of_running_loop() -> asyncio.AbstractEventLoop:
    loop = modules["asyncio"].get_running_loop()
    tell = _on_loop_wait
    if tell is not None:
        tell(loop)
    return loop  # type: ignore[no-any-return]


_running_loop: Callable[[], asyncio.AbstractEventLoop] = _find_running_loop
_on_loop_wait: Callable[[asyncio.AbstractEventLoop], None] | None = None


def on_loop_wait(callback: Callable[[asyncio.AbstractEventLoop], None] | None) -> None:
    """Call ``callback(loop)`` whenever a coroutine is about to wait; None: no longer."""
    global _running_loop, _on_loop_wait  # noqa: PLW0603
    _on_loop_wait = callback
    _running_loop = _find_running_loop


def current_task() -> asyncio.Task[object]:
    """Return the task that runs in this thread.

    Raises:
        RuntimeError: No task or no loop runs here.
    """
    import asyncio

    task = asyncio.current_task(current_loop())
    if task is None:
        raise RuntimeError("no task is running")
    return task


def cancelled_error() -> type[BaseException]:
    """Return ``asyncio.CancelledError``."""
    import asyncio

    return asyncio.CancelledError


class _Checkpoint:
    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        current_loop()  # the bare yield is asyncio's: another loop would not understand it
        yield


checkpoint: Final = _Checkpoint()
"""Awaited, it lets the loop run everything else that is ready, once."""

CHECKPOINT_EVERY = 64
"""A coroutine that never needs to wait awaits ``checkpoint`` once per this many operations."""
