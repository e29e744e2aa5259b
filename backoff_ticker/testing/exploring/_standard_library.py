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
from concurrent import futures
from concurrent.futures.thread import ThreadPoolExecutor
from functools import partial
from threading import get_ident
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NoReturn

from ..._process import after_fork
from ...clock import PendingCall, current_clocks, let_other_threads_run
from .. import _virtual_clock
from ._schedule import Abandoned, Schedule
from ._story import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._schedule import Member

_WALL = 1.6e9  # seconds by which the wall clock of a schedule is ahead of its other one

# What a loop calls at the end of the task that it was started for.
_UNTIL_COMPLETE: Any = asyncio.base_events._run_until_complete_cb  # type: ignore[attr-defined]

_schedules: dict[int, Schedule] = {}  # by the thread of each member
after_fork(_schedules.clear)  # the other members do not exist there


def schedule_here() -> Schedule | None:
    """Return the schedule in which this thread is a member."""
    return _schedules.get(get_ident())


class Lock:
    """A lock for which members wait in turn; everybody else as for any lock."""

    __slots__ = ("__weakref__", "_at_fork_reinit", "_lock", "_owner", "locked", "release")

    def __init__(self, lock: _thread.LockType | None = None) -> None:
        self._lock = lock = lock or _thread.allocate_lock()
        self.locked, self.release = lock.locked, lock.release
        self._owner = 0  # the member that took it last, by its thread
        self._at_fork_reinit: Any = lock._at_fork_reinit  # type: ignore[attr-defined]

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT002
        schedule = schedule_here()
        if schedule is None or (timeout != -1 and (not blocking or timeout < 0)):
            taken = self._lock.acquire(blocking, timeout)
            self._owner = 0 if taken else self._owner
            return taken
        deadline = None if timeout == -1 else schedule.now + timeout
        while not self._lock.acquire(blocking=False):
            if not blocking or not schedule.wait(
                "a lock", lambda: not self.locked(), deadline, lambda: schedule.member(self._owner)
            ):
                return False
        self._owner = get_ident()
        return True

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _in_python(python: Any, original: Any) -> Any:
    """Return a class whose instances are of a class in Python, but outside a schedule of C."""

    def new(cls: type) -> Any:
        return object.__new__(cls) if schedule_here() else original()

    return type(python.__name__.lstrip("_Py"), (python,), {"__new__": new})


RLock = _in_python(threading._RLock, _thread.RLock)


def lock_for(original: Any) -> Any:
    """Return what stands for a lock that was made before the body."""
    if type(original) is _thread.LockType:
        return Lock(original)
    lock = object.__new__(RLock)
    lock._block, lock._owner, lock._count = Lock(), None, 0
    return lock


def free(lock: Any, schedule: Schedule) -> None:
    """Release what ``lock_for()`` has returned if a member had to leave before it could."""
    inner = getattr(lock, "_block", lock)
    holder = schedule.member(inner._owner)
    if holder is not None and holder.abandoned and inner.locked():
        if inner is not lock:
            lock._owner, lock._count = None, 0
        inner.release()


class _Parker:
    def __init__(self, schedule: Schedule, what: str) -> None:
        self._schedule, self._what, self._permit = schedule, what or "an unpark", False

    def park(self, deadline: float | None) -> bool:
        woken = self._schedule.wait(self._what, lambda: self._permit, deadline)
        self._permit = False
        return woken

    def unpark(self) -> None:
        self._permit = True


class _Timer(PendingCall):
    def wait(self, schedule: Schedule) -> None:
        schedule.wait("a timer", lambda: self.is_taken, self.when)
        self.fire()


class _Clock:
    """The ``Clock`` that this package has in the members."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def monotonic(self) -> float:
        return self._schedule.now

    def time(self) -> float:
        return self._schedule.now + _WALL

    def parker(self, what: str = "") -> _Parker:
        return _Parker(self._schedule, what)

    def call_at(self, when: float, callback: Callable[[], object], *, loop: Any = None) -> _Timer:
        timer = _Timer(when, callback)
        if loop is not None:
            loop.call_at(when, timer.fire)
        else:
            waiting = (self._schedule,)
            threading.Thread(target=timer.wait, args=waiting, name="timer", daemon=True).start()
        return timer


# What members do instead of what the original does, which comes after the schedule


def _sleep(schedule: Schedule, original: Callable[..., None], seconds: float) -> None:
    if seconds > 0:
        schedule.wait("time to pass", lambda: False, schedule.now + seconds)
    elif seconds == 0:
        schedule.give_way()
    else:
        original(seconds)  # raises


def _init(schedule: Schedule, original: Any, thread: Any, *args: Any, **options: Any) -> None:
    thread._hash = schedule.number("thread made")
    original(thread, *args, **options)


def _hash(thread: threading.Thread) -> int:
    """Have a set of threads, as an executor has one, in the same order each time."""
    return vars(thread).get("_hash") or object.__hash__(thread)


def _start(schedule: Schedule, original: Any, function: Any, *args: Any, **options: Any) -> Any:
    thread = getattr(function, "__self__", None)
    if not isinstance(thread, threading.Thread):
        return original(function, *args, **options)
    made: Any = thread
    made._member = me = schedule.add(thread.name, daemon=thread.daemon)
    if "daemon" in options:
        options["daemon"] = True  # the interpreter does not wait for one that hangs
    started = original(lambda *_: _run(schedule, me, function), *args, **options)
    made._ident = options["handle"].ident if started is None else started
    made._started.set()  # start() does not wait for its turn
    return started


def _set_tstate_lock(_: Schedule, original: Any, thread: Any) -> None:
    original(thread)
    locks: Any = threading._shutdown_locks  # type: ignore[attr-defined] # in CPython 3.11 and 3.12
    locks.discard(thread._tstate_lock)  # the interpreter does not wait for one that hangs


def _run(schedule: Schedule, me: Member, function: Any) -> None:
    me.ident = ident = get_ident()
    me.go.acquire()
    current_clocks[ident] = _Clock(schedule)
    _schedules[ident] = schedule
    try:
        if schedule.ended:
            function.__self__.run = lambda: None  # threading forgets the thread, nothing else
        function()
    except Abandoned:
        pass
    finally:
        current_clocks.pop(ident, None)  # a forked child has forgotten both
        _schedules.pop(ident, None)
        try:
            schedule.end(me)
        finally:
            me.over.release()


def start_body(schedule: Schedule, body: Callable[[], object]) -> None:
    """Start the first member of a schedule; it has its turn at once."""
    _schedules[get_ident()] = schedule
    try:
        thread: Any = threading.Thread(target=body, name="body", daemon=True)
        thread.start()
    finally:
        del _schedules[get_ident()]
    thread._daemonic = False  # its threads inherit that; the interpreter does not wait for it
    schedule.running = schedule.members[0]
    schedule.running.daemon = False
    schedule.running.go.release()


def _join(schedule: Schedule, original: Any, thread: Any, timeout: float | None = None) -> None:
    member = vars(thread).get("_member")
    if member is not None and member is not schedule.running:
        deadline = None if timeout is None else schedule.now + max(timeout, 0)
        what = f"the end of {thread.name}"
        if not schedule.wait(what, lambda: member.done, deadline, lambda: member):
            return
    original(thread, None if member is not None else timeout)


def _is_alive(_: Schedule, original: Any, thread: Any) -> bool:
    member = vars(thread).get("_member")
    return original(thread) if member is None else not member.done


def _excepthook(schedule: Schedule, _: object, raised: Any) -> None:
    # In a thread that was started, these two are an end that was asked for.
    asked = (SystemExit, KeyboardInterrupt) if schedule.running.number else ()
    if not issubclass(raised.exc_type, asked):
        try:
            text = str(raised.exc_value)
        except Exception as error:  # whatever it is, there was another
            text = f"(its text fails with {type(error).__name__})"
        what = f"{raised.thread.name} ended with {raised.exc_type.__name__}: {text}"
        schedule.fail(what + stack_of(walk_tb(raised.exc_traceback)), raised.exc_value)


def _unraisablehook(_: Schedule, original: Any, raised: Any) -> None:
    if raised.exc_type is not Abandoned:  # which a finalizer or a callback of weakref cannot raise
        original(raised)


def _notify(schedule: Schedule, original: Any, condition: Any, n: int = 1) -> None:
    waiters = condition._waiters
    if n < len(waiters):
        first = schedule.pick([*waiters])
        waiters.remove(first)
        waiters.appendleft(first)
    original(condition, n)


def _create_task(schedule: Schedule, original: Any, *args: Any, **options: Any) -> Any:
    if options.get("name") is None:
        options["name"] = f"Task-{schedule.number('task')}"
    return original(*args, **options)


class Task(asyncio.Task[Any]):
    """A task with the same place in a set each time; its end with its schedule is no news."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return super().__new__(cls) if schedule_here() else asyncio.Task(*args, **options)

    def __init__(self, *args: Any, **options: Any) -> None:
        self._schedule = _schedules[get_ident()]
        self._hash = self._schedule.number("task made")
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._hash

    def __del__(self) -> None:
        if self._schedule.ended:
            self._log_destroy_pending = self._log_traceback = False
        super().__del__()


def _is_main(task: Any) -> bool:
    return any(callback[0] is _UNTIL_COMPLETE for callback in task._callbacks or ())


def in_another(schedule: Schedule) -> bool:
    """Return whether what runs is a thread or task but that of the body."""
    task = asyncio.current_task() if asyncio._get_running_loop() else None
    return schedule.running.number > 0 or (task is not None and not _is_main(task))


def _reorder(schedule: Schedule, ready: Any) -> None:
    """Let another task than the first that can go on be the first."""
    able = [
        handle
        for handle in ready
        if isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)
    ]
    if able and (first := schedule.pick(able)) is not able[0]:
        place = ready.index(able[0])
        ready.remove(first)
        ready.insert(place, first)
        schedule.tell(f"{first._callback.__self__.get_name()} goes first")


def _may_cancel(schedule: Schedule, task: Any) -> bool:
    if schedule.cancel_tasks is True:
        return True
    del _schedules[get_ident()]  # what decides is no part of the schedule
    try:
        return bool(schedule.cancel_tasks(task))
    finally:
        _schedules[get_ident()] = schedule


def _select(schedule: Schedule, original: Any, selector: Any, timeout: float | None = None) -> Any:
    schedule.point()
    if schedule.cancel_tasks and asyncio._get_running_loop():
        tasks: Any = asyncio.all_tasks()
        by_name = sorted(tasks, key=lambda task: (len(task.get_name()), task.get_name()))
        able = [task for task in by_name if not _is_main(task) and _may_cancel(schedule, task)]
        task = schedule.pick([None, *able])
        if task is not None:
            task.cancel()
            schedule.tell(f"{task.get_name()} is cancelled")
            timeout = 0
    if schedule.task_order:
        _reorder(schedule, getattr(asyncio._get_running_loop(), "_ready", ()))
    deadline = None if timeout is None else schedule.now + max(timeout, 0)
    schedule.wait("an event", lambda: bool(original(selector, 0)), deadline)
    return original(selector, 0)


def _no_virtual_clock(*_: object) -> NoReturn:
    raise RuntimeError("explore() needs no VirtualClock: time in its body passes by itself")


def _critical(schedule: Schedule, original: Any, *args: Any, **options: Any) -> None:
    if not schedule.ended:  # else it is the worker of a pool, which has to leave
        original(*args, **options)


_IN_A_SCHEDULE: dict[Any, Callable[..., object]] = {
    let_other_threads_run: lambda schedule, *_: schedule.give_way(),
    time.sleep: _sleep,
    time.time: lambda schedule, _: schedule.now + _WALL,
    time.monotonic: lambda schedule, _: schedule.now,
    time.perf_counter: lambda schedule, _: schedule.now,
    time.time_ns: lambda schedule, _: round((schedule.now + _WALL) * 1e9),
    time.monotonic_ns: lambda schedule, _: round(schedule.now * 1e9),
    time.perf_counter_ns: lambda schedule, _: round(schedule.now * 1e9),
}


def _scheduled(ours: Callable[..., object], original: Any) -> Any:
    def replacement(*arguments: Any, **options: Any) -> object:
        schedule = schedule_here()
        if schedule is None:
            return original(*arguments, **options)
        return ours(schedule, original, *arguments, **options)

    return replacement


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield the patches of what is replaced, under whatever name a module has it."""
    replaced = {original: _scheduled(ours, original) for original, ours in _IN_A_SCHEDULE.items()}
    replaced[queue.SimpleQueue] = _in_python(queue._PySimpleQueue, queue.SimpleQueue)  # type: ignore[attr-defined]
    replaced[_thread.RLock] = RLock
    replaced |= dict.fromkeys((_thread.allocate_lock, threading.Lock), Lock)
    by_id = {id(original): replacement for original, replacement in replaced.items()}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith((__package__, "_thread", "_queue", "_frozen_importlib")):
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if new := by_id.get(id(value)):
                    yield module, attribute, lambda _, new=new: new
    for owner, name, ours in (
        (threading, "_start_joinable_thread", _start),
        (threading, "_start_new_thread", _start),
        (threading, "excepthook", _excepthook),
        (sys, "unraisablehook", _unraisablehook),
        (threading, "_counter", lambda schedule, _: schedule.number("thread named")),
        (asyncio.BaseEventLoop, "create_task", _create_task),
        (threading.Condition, "notify", _notify),
        (threading.Thread, "__init__", _init),
        (threading.Thread, "join", _join),
        (threading.Thread, "_set_tstate_lock", _set_tstate_lock),
        (threading.Thread, "is_alive", _is_alive),
        (selectors.DefaultSelector, "select", _select),
        (futures._base.LOGGER, "critical", _critical),
        (_virtual_clock, "installed", _no_virtual_clock),
    ):
        if hasattr(owner, name):
            yield owner, name, partial(_scheduled, ours)
    yield threading.Thread, "__hash__", lambda _: _hash
    yield asyncio.tasks, "Task", lambda _: Task
    pool = partial(_scheduled, lambda schedule, _: schedule.number("pool"))
    yield ThreadPoolExecutor, "_counter", lambda original: staticmethod(pool(original))
