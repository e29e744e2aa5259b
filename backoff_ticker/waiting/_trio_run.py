"""A run of trio in the shape of an event loop of asyncio, as far as this package uses one.

Invariants:
    * A task is rescheduled once for each time it sleeps: by ``set_result()``, or by a cancel.
    * No callback raises into trio, which would end its run.
    * ``_waits`` has the time of the first call as its deadline; cancelled calls are never first.
    * What wakes a task, or enters or leaves a scope, is protected from Ctrl-C, as it is in trio.
"""

from __future__ import annotations

import math
from functools import partial
from heapq import heappop, heappush
from itertools import count
from sys import modules

import trio
from trio.lowlevel import (
    Abort,
    RunVar,
    add_instrument,
    current_task,
    current_trio_token,
    enable_ki_protection,
    in_trio_task,
    reschedule,
    spawn_system_task,
    wait_task_rescheduled,
)

from .._unraisable import report
from ..clock import SystemClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from typing import Any, Self

_runs: RunVar[TrioRun] = RunVar("the run, for backoff_ticker")


def current_run() -> TrioRun | None:
    """Return the run whose task runs in this thread, where trio runs; None: it is no task."""
    if not in_trio_task():
        return None
    try:
        return _runs.get()
    except LookupError:
        run = TrioRun()
        _runs.set(run)
        return run


class TrioRun:
    """One run of trio.

    Thread safety: ``is_closed()`` and ``call_soon_threadsafe()`` may be called anywhere; the rest
    in a task of the run.

    Attributes:
        at_end: What is called when the run has ended, in whatever way.
        has_real_time: Whether it has no clock of its own.
    """

    def __init__(self) -> None:
        self.at_end: dict[Callable[[], object], None] = {}
        clock = trio.lowlevel.current_clock()
        self.has_real_time: bool = type(clock).__name__ == "SystemClock"  # a private class of trio
        self._token = current_trio_token()
        self._is_over = False
        self._calls: list[tuple[float, int, TrioHandle]] = []
        self._numbers = count()
        self._is_timing = False
        self._waits = trio.CancelScope()  # the task of the calls
        self._host: Any = None  # the loop of a guest, which does not outlive it
        running_loop = getattr(modules.get("asyncio"), "_get_running_loop", None)
        host = None if running_loop is None else running_loop()
        if not type(host).__module__.startswith("trio_asyncio"):  # whose loops run in trio
            self._host = host
        add_instrument(self)  # type: ignore[arg-type]  # it has what is called: after_run()

    def after_run(self) -> None:
        """Note the end; trio calls it."""
        self._is_over = True
        for call in [*self.at_end]:
            call()

    def is_closed(self) -> bool:
        """Whether the run has ended, or will not go on."""
        return self._is_over or (self._host is not None and self._host.is_closed())

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> None:
        """Call ``callback(*args)`` in the run; RuntimeError if that is closed."""
        if not self.is_closed():
            try:
                self._token.run_sync_soon(_guarded, callback, *args)
            except (trio.RunFinishedError, OSError):  # it is ending; it has crashed just now
                self._is_over = True
            else:
                return
        raise RuntimeError("the run of trio has ended")

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call it at once, unlike a loop: a task that it cancels goes on to its next checkpoint."""
        callback()

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: object
    ) -> Any:
        """Call ``callback(*args)`` in so many seconds of real time, in an empty context."""
        call = partial(callback, *args)
        if self.has_real_time:
            return self.call_at(trio.current_time() + delay, call)
        # Its own clock may stand still, or move on where nothing else is due.
        clock = SystemClock()
        return clock.call_at(clock.monotonic() + delay, partial(self.call_soon_if_open, call))

    def call_soon_if_open(self, callback: Callable[[], object]) -> None:
        """Call it in the run, from anywhere; if that is closed, nobody waits there any more."""
        try:
            self.call_soon_threadsafe(callback)
        except RuntimeError:
            pass

    def call_at(self, when: float, callback: Callable[[], object]) -> TrioHandle:
        """Call ``callback()`` at ``when`` of trio's clock, in the context of no task."""
        if not self._is_timing:
            spawn_system_task(self._call_due)
            self._is_timing = True
        handle = TrioHandle(self, callback)
        heappush(self._calls, (when, next(self._numbers), handle))
        self.arm()
        return handle

    def arm(self) -> None:
        """Have the task of the calls wake at the time of the next one, if there is one."""
        calls = self._calls
        while calls and calls[0][2].callback is None:
            heappop(calls)
        when = calls[0][0] if calls else math.inf
        if self._waits.deadline != when:
            self._waits.deadline = when

    async def _call_due(self) -> None:
        calls = self._calls
        while True:
            with self._waits:
                await trio.sleep_forever()
            self._waits = trio.CancelScope()
            now = trio.current_time()
            while calls and calls[0][0] <= now:
                callback = heappop(calls)[2].callback
                if callback is not None:
                    _guarded(callback)
            self.arm()

    def create_future(self) -> TrioFuture:
        return TrioFuture()

    @enable_ki_protection
    async def checkpoint(self) -> None:
        """Let others run, and raise a cancel; Ctrl-C leaves no scope of this open."""
        await trio.lowlevel.checkpoint()

    def new_cut(self) -> TrioCut:
        return TrioCut(self)

    def new_tasks(self) -> TrioTasks:
        return TrioTasks()


def _guarded(callback: Callable[..., object], *args: object) -> None:
    try:
        callback(*args)
    except BaseException as error:  # it would end the run of trio
        report(error, "Exception in a callback in trio", callback)


class TrioHandle:
    """A call in a run; once it is cancelled, its time is none that a clock of tests moves to."""

    __slots__ = ("_run", "callback")

    def __init__(self, run: TrioRun, callback: Callable[[], object]) -> None:
        self._run = run
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None
        self._run.arm()


class TrioFuture:
    """What a task awaits, once; ``set_result()`` wakes it, in the thread of its run."""

    __slots__ = ("_is_done", "_task")

    def __init__(self) -> None:
        self._is_done = False
        self._task: Any = None

    def done(self) -> bool:
        return self._is_done

    @enable_ki_protection
    def set_result(self, _: None) -> None:
        task, self._task, self._is_done = self._task, None, True
        if task is not None:
            reschedule(task)

    @enable_ki_protection
    def __await__(self) -> Generator[Any, Any, None]:
        task = current_task()
        if not self._is_done:
            self._task = task  # no call since the look: no signal handler came in between
            try:
                asleep = wait_task_rescheduled(self._abort)  # noqa: ASYNC105 - awaited below
                yield from asleep.__await__()
            finally:
                self._task, self._is_done = None, True

    def _abort(self, _: object) -> Abort:
        if self._is_done:
            return Abort.FAILED  # a signal handler has woken it, just before it slept
        self._task, self._is_done = None, True
        return Abort.SUCCEEDED


class TrioCut:
    """A cancel scope around what a task does from now on, in the shape of that task."""

    __slots__ = ("_run", "_scope")

    @enable_ki_protection
    def __init__(self, run: TrioRun) -> None:
        self._run = run
        self._scope = trio.CancelScope()
        self._scope.__enter__()

    def get_loop(self) -> TrioRun:
        return self._run

    def cancelling(self) -> int:
        return 0

    def cancel(self) -> None:
        self._scope.cancel()

    @enable_ki_protection
    def catches(self, error: BaseException | None) -> bool:
        """Leave the scope; return whether ``error`` is nothing but its cancel.

        If it is a group of errors with its cancel, what is left of the group is raised.
        """
        if not in_trio_task():  # the coroutine is closed, after its run has crashed
            return False
        if error is None:
            self._scope.__exit__(None, None, None)
            return False
        return self._scope.__exit__(type(error), error, error.__traceback__)


class TrioTasks:
    """Tasks that all end before the block does; an error of the block passes as it is."""

    def __init__(self) -> None:
        self._manager = trio.open_nursery()

    @enable_ki_protection
    async def __aenter__(self) -> Self:
        self._nursery = await self._manager.__aenter__()
        return self

    @enable_ki_protection
    async def __aexit__(self, kind: object, *exc_info: object) -> None:
        if kind is not None:
            self._nursery.cancel_scope.cancel()
        await self._manager.__aexit__(None, None, None)

    @enable_ki_protection
    def create_task(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> trio.CancelScope:
        """Start a task, which raises nothing; return what cancels it."""
        scope = trio.CancelScope()
        self._nursery.start_soon(_run, scope, coroutine, name=name)
        return scope


@enable_ki_protection
async def _run(scope: trio.CancelScope, coroutine: Coroutine[Any, Any, None]) -> None:
    with scope:
        await coroutine
