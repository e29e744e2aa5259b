"""The standard library in a schedule: threads, locks, selectors, and the time.

``threading`` and ``queue`` build nearly all they have on a lock. Their parts in C are replaced by
their own versions in Python. Each replacement does what the original does in any other thread.
"""

from __future__ import annotations

import _thread
import asyncio
import queue
import selectors
import sys
import threading
import time
from contextlib import contextmanager
from itertools import count
from threading import get_ident
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from ...clock import current_clocks, let_other_threads_run
from ._schedule import Abandoned, Schedule
from ._story import stack_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from ._points import Patch
    from ._schedule import Member

_WALL = 1.6e9
"""How far the wall clock of a schedule is ahead of its other one, in seconds."""

_schedules: dict[int, Schedule] = {}
"""The schedule of each member, by its thread."""


def schedule_here() -> Schedule | None:
    """Return the schedule in which this thread is a member."""
    return _schedules.get(get_ident())


class Lock:
    """A lock for which members wait in turn; everybody else as for any lock."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002
        schedule = schedule_here()
        lock = self._lock
        if schedule is None or (timeout != -1 and (not blocking or timeout < 0)):
            return lock.acquire(blocking, timeout)
        if lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        deadline = None if timeout == -1 else schedule.now + timeout
        while schedule.wait("a lock", lambda: not lock.locked(), deadline):
            if lock.acquire(blocking=False):
                return True
        return False

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def _at_fork_reinit(self) -> None:
        self._lock = _thread.allocate_lock()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


_PythonRLock: Any = threading._RLock
_PythonQueue: Any = queue._PySimpleQueue  # type: ignore[attr-defined]


class RLock(_PythonRLock):  # type: ignore[misc]
    """The one of ``threading`` in Python."""

    def __new__(cls) -> Any:  # noqa: ANN401 - as the original
        return super().__new__(cls) if schedule_here() else _thread.RLock()


class SimpleQueue(_PythonQueue):  # type: ignore[misc]
    """The one of ``queue`` in Python."""

    def __new__(cls) -> Any:  # noqa: ANN401 - as the original
        return super().__new__(cls) if schedule_here() else _ORIGINAL_QUEUE()


_ORIGINAL_QUEUE = queue.SimpleQueue


class ScheduledParker:
    """A ``Parker`` of the schedule's clock."""

    def __init__(self, what: str) -> None:
        self._what = what or "an unpark"
        self._permit = False

    def park(self, deadline: float | None) -> bool:
        schedule = schedule_here()
        if schedule is None:
            raise Abandoned
        woken = schedule.wait(self._what, lambda: self._permit, deadline)
        self._permit = False
        return woken

    def unpark(self) -> None:
        self._permit = True


class ScheduledTimer:
    """A callback that a thread, or a loop, is to make."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when: float = when
        self._callbacks = [callback]

    def cancel(self) -> bool:
        try:
            self._callbacks.pop()
        except IndexError:
            return False
        return True

    def fire(self) -> None:
        for callback in self._callbacks[:]:
            if self.cancel():
                callback()

    def wait(self, schedule: Schedule) -> None:
        schedule.wait("a timer", lambda: not self._callbacks, self.when)
        self.fire()


class ScheduledClock:
    """The ``Clock`` that this package has in the members."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def monotonic(self) -> float:
        return self._schedule.now

    def time(self) -> float:
        return self._schedule.now + _WALL

    def parker(self, what: str = "") -> ScheduledParker:
        return ScheduledParker(what)

    def call_at(
        self, when: float, callback: Callable[[], object], *, loop: AbstractEventLoop | None = None
    ) -> ScheduledTimer:
        timer = ScheduledTimer(when, callback)
        if loop is not None:
            loop.call_at(when, timer.fire)
        else:
            arguments = (self._schedule,)
            threading.Thread(target=timer.wait, args=arguments, name="timer", daemon=True).start()
        return timer


def _sleep(schedule: Schedule, seconds: float) -> None:
    if seconds > 0:
        schedule.wait("time to pass", lambda: False, schedule.now + seconds)
    elif seconds == 0:
        schedule.give_way()
    else:
        raise ValueError("sleep length must be non-negative")


_IN_A_SCHEDULE: dict[Any, Callable[..., object]] = {
    let_other_threads_run: Schedule.give_way,
    time.sleep: _sleep,
    time.time: lambda schedule: schedule.now + _WALL,
    time.monotonic: lambda schedule: schedule.now,
    time.perf_counter: lambda schedule: schedule.now,
    time.time_ns: lambda schedule: round((schedule.now + _WALL) * 1e9),
    time.monotonic_ns: lambda schedule: round(schedule.now * 1e9),
    time.perf_counter_ns: lambda schedule: round(schedule.now * 1e9),
}


def _replacing(original: Any, ours: Callable[..., object]) -> Any:  # noqa: ANN401
    def replacement(*arguments: Any) -> object:  # noqa: ANN401
        schedule = schedule_here()
        return original(*arguments) if schedule is None else ours(schedule, *arguments)

    return replacement


def _run(schedule: Schedule, me: Member, function: Callable[[], object]) -> None:
    me.ident = ident = get_ident()
    me.go.acquire()
    current_clocks[ident] = ScheduledClock(schedule)
    _schedules[ident] = schedule
    try:
        if not schedule.ended:
            function()
    except Abandoned:
        pass
    finally:
        del current_clocks[ident], _schedules[ident]
        try:
            schedule.end(me)
        finally:
            me.over.release()


def _counters() -> list[tuple[Any, str]]:
    """Return what gives threads and tasks their names."""
    counters: list[tuple[Any, str]] = [(threading, "_counter")]
    if "concurrent.futures.thread" in sys.modules:
        counters.append((sys.modules["concurrent.futures.thread"].ThreadPoolExecutor, "_counter"))
    if "asyncio.tasks" in sys.modules:
        counters.append((sys.modules["asyncio.tasks"], "_task_name_counter"))
    return counters


def start_body(schedule: Schedule, body: Callable[[], object]) -> None:
    """Start the first member of a schedule; it has its turn at once."""
    for owner, name in _counters():
        setattr(owner, name, count(1).__next__)
    _hashes[0] = count(1)
    thread: Any = threading.Thread(target=body, name="body", daemon=True)
    thread._explored = schedule, schedule.add("body", daemon=False)
    schedule.running = schedule.members[0]
    thread.start()
    schedule.running.go.release()
    thread._daemonic = False  # its threads inherit that; the interpreter would not wait for it


def _starting(original: Any) -> Any:  # noqa: ANN401
    def start(function: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        schedule = schedule_here()
        thread: Any = getattr(function, "__self__", None)
        if schedule is not None and hasattr(thread, "_bootstrap"):
            me = schedule.add(thread.name, daemon=thread.daemon)
            thread._explored = schedule, me
        elif hasattr(thread, "_explored"):
            schedule, me = thread._explored
        else:
            return original(function, *arguments, **options)
        started = original(lambda *_: _run(schedule, me, function), *arguments, **options)
        thread._ident = options["handle"].ident if started is None else started
        thread._started.set()  # start() does not wait for its turn
        return started

    return start


def _making(original: Any) -> Any:  # noqa: ANN401
    def init(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        if schedule_here() is not None:
            self._hash = next(_hashes[0])
        original(self, *arguments, **options)

    return init


_hashes: list[count[int]] = [count()]


def _hash(self: threading.Thread) -> int:
    """Have a set of threads, as an executor has one, in the same order each time."""
    return vars(self).get("_hash") or object.__hash__(self)


def _joining(original: Any) -> Any:  # noqa: ANN401
    def join(self: Any, timeout: float | None = None) -> None:  # noqa: ANN401
        schedule, member = schedule_here(), getattr(self, "_explored", (None, None))[1]
        if schedule is not None and member is not None and member is not schedule.running:
            deadline = None if timeout is None else schedule.now + max(timeout, 0)
            if not schedule.wait(f"the end of {self.name}", lambda: member.done, deadline):
                return
            timeout = None
        original(self, timeout)

    return join


def _alive(original: Any) -> Any:  # noqa: ANN401
    def is_alive(self: Any) -> Any:  # noqa: ANN401
        member = getattr(self, "_explored", (None, None))[1]
        return original(self) if member is None else not member.done

    return is_alive


def _hearing(original: Any) -> Any:  # noqa: ANN401
    def excepthook(arguments: Any) -> None:  # noqa: ANN401
        schedule, member = getattr(arguments.thread, "_explored", (None, None))
        if schedule is None or member is None:
            original(arguments)
        elif not issubclass(arguments.exc_type, SystemExit):
            error = arguments.exc_value
            what = f"{member.name} ended with {type(error).__name__}: {error}"
            schedule.fail(what + stack_of(walk_tb(arguments.exc_traceback)), error)

    return excepthook


def _selecting(original: Any) -> Any:  # noqa: ANN401
    def select(self: Any, timeout: float | None = None) -> Any:  # noqa: ANN401
        schedule = schedule_here()
        if schedule is None:
            return original(self, timeout)
        if schedule.ended:
            for task in asyncio.all_tasks() if asyncio._get_running_loop() else ():
                task._log_destroy_pending = False  # type: ignore[attr-defined] # it is no news
        schedule.point()
        events = original(self, 0)
        if events or (timeout is not None and timeout <= 0):
            return events
        deadline = None if timeout is None else schedule.now + timeout
        schedule.wait("an event", lambda: bool(original(self, 0)), deadline)
        return original(self, 0)

    return select


def _patches() -> Iterator[Patch]:
    replaced: dict[int, Any] = {
        id(original): _replacing(original, ours) for original, ours in _IN_A_SCHEDULE.items()
    }
    replaced |= {id(queue.SimpleQueue): SimpleQueue, id(_thread.RLock): RLock}
    replaced |= {id(each): Lock for each in (_thread.allocate_lock, threading.Lock)}
    for name, module in sorted(sys.modules.items()):
        if name in {"_thread", "_queue"} or name.startswith((__package__, "_frozen_importlib")):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in replaced:
                yield module, attribute, replaced[id(value)]
    for name in ("_start_joinable_thread", "_start_new_thread"):
        if hasattr(threading, name):
            yield threading, name, _starting(getattr(threading, name))
    yield threading, "excepthook", _hearing(threading.excepthook)
    yield threading.Thread, "__init__", _making(threading.Thread.__init__)
    yield threading.Thread, "__hash__", _hash
    yield threading.Thread, "join", _joining(threading.Thread.join)
    yield threading.Thread, "is_alive", _alive(threading.Thread.is_alive)
    for owner, name in _counters():
        yield owner, name, getattr(owner, name)  # to be put back; each schedule begins anew
    selector = selectors.DefaultSelector
    yield selector, "select", _selecting(selector.select)


_INHERITED = object()
"""The original of what an owner does not define itself."""


@contextmanager
def patched(more: list[Patch]) -> Iterator[None]:
    """Have the standard library take part in schedules inside the block."""
    kept = []
    try:
        for owner, name, replacement in [*_patches(), *more]:
            kept.append((owner, name, vars(owner).get(name, _INHERITED)))
            setattr(owner, name, replacement)
        yield
    finally:
        for owner, name, original in reversed(kept):
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
