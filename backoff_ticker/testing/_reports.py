"""Who waits for what, and where: the texts of failures."""

from __future__ import annotations

import os
import sys
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from ._nanoseconds import in_seconds
from ._participant import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from ._kernel import Kernel
    from ._participant import Participant

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - texts
_STANDARD = os.path.dirname(os.path.abspath(os.__file__))  # noqa: PTH100, PTH120
_NOT_THE_USERS = (_OURS, _STANDARD)
_OF_THREADS = ("threading.py", os.path.join("futures", "thread.py"))  # noqa: PTH118
_TASKS = 10
"""How many tasks of a loop are named."""
_SITE = os.path.join(_STANDARD, "site-packages")  # noqa: PTH118


def name_of(function: Any) -> object:  # noqa: ANN401
    """Return what to call a function: of ``asyncio.to_thread``'s, that which it was given."""
    while isinstance(function, partial):
        called = function.func
        in_context = isinstance(getattr(called, "__self__", None), Context) and function.args
        function = function.args[0] if in_context else called
    return getattr(function, "__qualname__", function)


def at(kernel: Kernel) -> str:
    """Return the time, as failures give it."""
    return f"at t={in_seconds(kernel.now):.9g}"


def _place(ident: int | None) -> str:
    """Return where a thread is: the innermost frame of the user's own, and what that has called.

    Without any of the user's own: the outermost that is not of threads.
    """
    return _place_of(_stack(None if ident is None else sys._current_frames().get(ident)))


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _place_of(frames: Iterator[FrameType]) -> str:
    called = outermost = innermost = ""
    for frame in frames:
        if _is_the_users(frame):
            return f" in {called}{_shown(frame)}"
        called = f"{_shown(frame)} <- "
        path = frame.f_code.co_filename
        if not path.startswith(_OURS):
            innermost = innermost or f" in {_shown(frame)}"
            if not path.endswith(_OF_THREADS):
                outermost = f" in {_shown(frame)}"
    return outermost or innermost


def _is_the_users(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(_SITE) or not path.startswith((*_NOT_THE_USERS, "<"))


def _shown(frame: FrameType) -> str:
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}()"  # noqa: PTH119


def _waits(participant: Participant) -> str:
    if participant.state in (State.PARKED, State.HELD, State.AWAY):
        return f"{participant.name}: {participant.what or 'a wait'}"
    return f"{participant.name}: {participant.state.value}"


def _with_place(kernel: Kernel, participant: Participant) -> str:
    tasks = [
        task
        for loop_driver in kernel.loop_drivers
        if loop_driver.participant is participant
        for task in loop_driver.tasks()
    ]
    named = [f"task {task.get_name()!r}{_place_of(_awaiting(task.get_coro()))}" for task in tasks]
    more = f" and {len(named) - _TASKS} more" if len(named) > _TASKS else ""
    told = f" ({', '.join(named[:_TASKS])}{more})" if named else ""
    return f"{_waits(participant)}{_place(participant.ident)}{told}"


def _awaiting(coroutine: Any) -> Iterator[FrameType]:  # noqa: ANN401
    """Yield the frames of what a coroutine waits for, innermost first."""
    frames: list[FrameType] = []
    while coroutine is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                frames.append(frame)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return reversed(frames)


def stuck(kernel: Kernel, what: str) -> str:
    """Return that somebody neither waits on the clock nor ends."""
    busy = [one for one in kernel.members if one.state in (State.RUNNING, State.QUEUED, State.HELD)]
    threads = [f"thread {one.name!r}{_place(one.ident)}" for one in busy]
    missing = [f"{name}, tracked, was not called yet" for name in kernel.promises.values()]
    held = [f"time is held by external({why!r})" for why in kernel.holds.values()]
    who = "; ".join([*threads, *missing, *held])
    timeout = kernel.patience.timeout
    return (
        f"{what} gave up after {timeout:g} s of real time {at(kernel)}: {len(busy)} "
        f"of {len(kernel.members)} participants never waited on this clock: {who or 'none'}. "
        "Use a wait of this library, or put clock.idle(...) around a wait for another participant, "
        "clock.external(...) around one for the world."
    )


def deadlock(kernel: Kernel) -> str:
    """Return that everybody waits and nothing is due."""
    waits = "; ".join(_with_place(kernel, one) for one in kernel.members)
    return f"{at(kernel)}: no timer is set and every participant waits: {waits}."


def driver_waits(kernel: Kernel) -> str:
    """Return that the thread which drives the clock by hand waits for what only it can do."""
    return (
        f"{at(kernel)}: the thread that drives this clock waits on it ({kernel.driver.what}), "
        "every participant does, and time stands still. Call advance() first, await "
        "advance_async(), wait in a participant, or have time advance by itself."
    )


def leaks(kernel: Kernel, participants: list[Participant]) -> str:
    """Return who still waited as the clock was closed."""
    number = len(participants)
    who = "; ".join(_with_place(kernel, one) for one in participants)
    return f"{number} participant{'s' * (number != 1)} still waited at close: {who}"
