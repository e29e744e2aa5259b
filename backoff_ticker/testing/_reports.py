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
    from types import FrameType

    from ._kernel import Kernel
    from ._participant import Participant

__all__ = ["at", "deadlock", "driver_waits", "leaks", "name_of", "stuck"]

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - texts
_STANDARD = os.path.dirname(os.path.abspath(os.__file__))  # noqa: PTH100, PTH120
_NOT_THE_USERS = (_OURS, _STANDARD)
_OF_THREADS = ("threading.py", os.path.join("futures", "thread.py"))  # noqa: PTH118
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
    frame = None if ident is None else sys._current_frames().get(ident)
    called = outermost = ""
    while frame is not None:
        if _is_the_users(frame):
            return f" in {called}{_shown(frame)}"
        called = f"{_shown(frame)} <- "
        path = frame.f_code.co_filename
        if not path.startswith(_OURS) and not path.endswith(_OF_THREADS):
            outermost = f" in {_shown(frame)}"
        frame = frame.f_back
    return outermost


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


def _with_place(participant: Participant) -> str:
    return f"{_waits(participant)}{_place(participant.ident)}"


def stuck(kernel: Kernel, what: str) -> str:
    """Return that somebody neither waits on the clock nor ends."""
    busy = [one for one in kernel.members if one.state in (State.RUNNING, State.QUEUED, State.HELD)]
    threads = [f"thread {one.name!r}{_place(one.ident)}" for one in busy]
    missing = [f"{name}, tracked, was not called yet" for name in kernel.promises.values()]
    who = "; ".join([*threads, *missing])
    timeout = kernel.patience.timeout
    return (
        f"{what} gave up after {timeout:g} s of real time {at(kernel)}: {len(busy)} "
        f"of {len(kernel.members)} participants never waited on this clock: {who or 'none'}. "
        "Use a wait of this library, or put clock.idle(...) around the wait."
    )


def deadlock(kernel: Kernel) -> str:
    """Return that everybody waits and nothing is due."""
    waits = "; ".join(map(_with_place, kernel.members))
    return f"{at(kernel)}: no timer is set and every participant waits: {waits}."


def driver_waits(kernel: Kernel) -> str:
    """Return that the thread which drives the clock by hand waits for what only it can do."""
    return (
        f"{at(kernel)}: the thread that drives this clock waits on it ({kernel.driver.what}), "
        "every participant does, and time stands still. Call advance() first, await "
        "advance_async(), wait in a participant, or have time advance by itself."
    )


def leaks(participants: list[Participant]) -> str:
    """Return who still waited as the clock was closed."""
    number = len(participants)
    who = "; ".join(map(_with_place, participants))
    return f"{number} participant{'s' * (number != 1)} still waited at close: {who}"
