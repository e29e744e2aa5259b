"""The texts of failures: what waits, for what, and where."""

from __future__ import annotations

import os
import sys
import threading
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._validation import safe_repr
from ..participants._participant import State
from ..participants._timers import in_seconds
from ._external_waits import works_inside_idle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    from ..participants._participant import Participant

_PACKAGE = os.path.abspath(f"{__file__}/../../..")  # noqa: PTH100 - texts
_TESTING = os.path.join(_PACKAGE, "testing")  # noqa: PTH118
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))  # noqa: PTH100, PTH120
_SITE_PACKAGES = os.path.join(_STANDARD_LIBRARY, "site-packages")  # noqa: PTH118
_OF_THREADS = ("threading.py", os.path.join("futures", "thread.py"))  # noqa: PTH118
_MAX_TASKS = 10
"""How many tasks of a loop are named at most."""


class Snapshot(NamedTuple):
    """The state of a kernel at the time of a failure.

    Attributes:
        now: The time in nanoseconds.
        timeout: For how long time may stand still, in real seconds.
        driver: The thread that drives the clock.
        members: The participants that time waits for.
        expected: The names of tracked functions that have not been called yet.
        frozen: What holds time.
    """

    now: int
    timeout: float
    driver: Participant
    members: list[Participant]
    expected: list[str]
    frozen: list[str]


def at(now: int) -> str:
    """Return a time as failures show it."""
    return f"at t={in_seconds(now):.9g}"


def stuck(snapshot: Snapshot, what: str) -> str:
    """Return the text for ``what``, which gave up on participants that do not wait on the clock."""
    members = snapshot.members
    busy = [
        one
        for one in members
        if one.state in (State.RUNNING, State.QUEUED, State.HELD) or works_inside_idle(one)
    ]
    threads = [f"thread {one.name!r}{_place(one.ident)}" for one in busy]
    missing = [f"{name}, tracked, was not called yet" for name in snapshot.expected]
    frozen = [f"time is held by {what}" for what in snapshot.frozen]
    who = "; ".join([*threads, *missing, *frozen])
    return (
        f"{what} gave up after {snapshot.timeout:g} s of real time {at(snapshot.now)}: {len(busy)} "
        f"of {len(members)} participants never waited on this clock: {who or 'none'}. "
        "Use a wait of this library, or put clock.idle(...) around a wait for another participant, "
        "clock.external(...) around a wait for something real. VirtualClock(patch_time=True) puts "
        "time.sleep() and waits in threading and queue on the clock."
    )


def deadlock(snapshot: Snapshot) -> str:
    """Return the text for participants that all wait while no timer is set."""
    waits = "; ".join(_with_place(one) for one in snapshot.members)
    return (
        f"{at(snapshot.now)}: no timer is set and every participant waits: {waits}. "
        "One of them has to send, cancel, or set a time-out."
    )


def until_reached(snapshot: Snapshot) -> str:
    """Return the text for participants that still wait when auto-advance has gone far enough."""
    waits = "; ".join(_with_place(one) for one in snapshot.members)
    return (
        f"{at(snapshot.now)}, the time given as until=, these participants still wait: {waits}. "
        "Cancel their tokens earlier, or give a later time."
    )


def driver_waits(snapshot: Snapshot) -> str:
    """Return the text for a thread that waits for time that only it can move."""
    return (
        f"{at(snapshot.now)}: the thread that drives this clock waits on it "
        f"({snapshot.driver.what}), every participant does, and time stands still. Call advance() "
        "first, await advance_async(), cancel what it waits for, or use auto-advance."
    )


def on_another_clock(called: str, other: object, current: object) -> str:
    """Return the text for an object on another clock than the thread that uses it."""
    return (
        f"{called} is on another clock, {other!r}: it was made before `with clock:`, or with "
        f"clock=. Make it inside: thread {threading.current_thread().name!r} is on {current!r}."
    )


def called_object() -> str | None:
    """Return the object of this package that the user's code has called; None: only a clock."""
    frame: FrameType | None = sys._getframe(1)
    called = None
    while frame is not None and (path := frame.f_code.co_filename).startswith(_PACKAGE):
        if not path.startswith(_TESTING):
            called = frame
        frame = frame.f_back
    if called is None:
        return None
    variables, name = called.f_locals, called.f_code.co_name
    if "self" in variables:
        return safe_repr(variables["self"])
    if name == "call":
        return f"a retry of {variables.get('name')}"
    return f"{name}({', '.join(map(safe_repr, variables.get('sources', ())))})"


def leaks(participants: list[Participant]) -> str:
    """Return the text for participants that waited when the clock was closed."""
    number = len(participants)
    who = "; ".join(_with_place(one) for one in participants)
    return (
        f"{number} participant{'s' * (number != 1)} still waited at close: {who}. "
        "Before the block ends, cancel the token and join the thread or task."
    )


def name_of(function: Any) -> object:  # noqa: ANN401
    """Return a function's name; with ``asyncio.to_thread()``, that of the function it runs."""
    while isinstance(function, partial):
        called = function.func
        in_context = isinstance(getattr(called, "__self__", None), Context) and function.args
        function = function.args[0] if in_context else called
    return getattr(function, "__qualname__", function)


def _with_place(participant: Participant) -> str:
    tasks = [] if participant.loop_tasks is None else participant.loop_tasks()
    named = [f"task {task.get_name()!r}{_place_of(_awaiting(task.get_coro()))}" for task in tasks]
    more = f" and {len(named) - _MAX_TASKS} more" if len(named) > _MAX_TASKS else ""
    of_loop = f" ({', '.join(named[:_MAX_TASKS])}{more})" if named else ""
    waits = participant.state in (State.PARKED, State.HELD, State.EXTERNAL)
    what = participant.what or "a wait" if waits else participant.state.value
    return f"{participant.name}: {what}{_place(participant.ident)}{of_loop}"


def _place(ident: int | None) -> str:
    """Return where a thread is."""
    return _place_of(_stack(None if ident is None else sys._current_frames().get(ident)))


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _awaiting(coroutine: Any) -> Iterable[FrameType]:  # noqa: ANN401
    """Return the frames of a coroutine and of what it awaits, the innermost first."""
    frames: list[FrameType] = []
    while coroutine is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                frames.append(frame)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return reversed(frames)


def _place_of(frames: Iterable[FrameType]) -> str:
    """Return the innermost frame of the user's code, and the function that it called.

    Without a frame of the user's code: the outermost frame that only calls thread machinery.
    """
    called = outermost = innermost = ""
    for frame in frames:
        if _is_of_the_user(frame):
            return f" in {called}{_location(frame)}"
        called = f"{_location(frame)} <- "
        path = frame.f_code.co_filename
        if not path.startswith(_PACKAGE):
            innermost = innermost or f" in {_location(frame)}"
            if not path.endswith(_OF_THREADS):
                outermost = f" in {_location(frame)}"
    return outermost or innermost


def _is_of_the_user(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(_SITE_PACKAGES) or not path.startswith(
        (_PACKAGE, _STANDARD_LIBRARY, "<")
    )


def _location(frame: FrameType) -> str:
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}()"  # noqa: PTH119
