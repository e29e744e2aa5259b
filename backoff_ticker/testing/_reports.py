"""For the texts of failures: what waits, for what, and where."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from .._validation import counted, safe_repr
from ._participants import Participant, State
from ._timers import in_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

_PACKAGE, _, _ = __name__.partition(".")
_MAX_TASKS = 10  # of a loop that are named


def at(now: int) -> str:
    return f"at t={in_seconds(now):.9g}"


def on_another_clock(called: str, other: object, current: object) -> str:
    return (
        f"{called} is on another clock, {other!r}: it was made before `with clock:`, or with "
        f"clock=. Make it inside: thread {threading.current_thread().name!r} is on {current!r}."
    )


def called_object() -> str | None:
    """Return the object of this package that the user's code has called; None: only a clock."""
    frame: FrameType | None = sys._getframe(1)
    called = None
    while frame is not None and _package(frame) == _PACKAGE:
        if not _module(frame).startswith(__package__ or ""):
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
    return (
        f"{counted(len(participants), 'participant')} still waited at close: "
        f"{with_places(participants)}. "
        "Before the block ends, cancel the token and join the thread or task."
    )


def name_of(function: object) -> object:
    return getattr(function, "__qualname__", function)


def with_places(participants: Iterable[Participant]) -> str:
    return "; ".join(map(_with_place, participants))


def _with_place(participant: Participant) -> str:
    tasks = [] if participant.tasks is None else participant.tasks()
    named = [f"task {task.get_name()!r}{place_of(_awaiting(task.get_coro()))}" for task in tasks]
    more = f" and {len(named) - _MAX_TASKS} more" if len(named) > _MAX_TASKS else ""
    of_loop = f" ({', '.join(named[:_MAX_TASKS])}{more})" if named else ""
    waits = participant.state in (State.PARKED, State.EXTERNAL)
    what = participant.what or "a wait" if waits else participant.state.value
    return f"{participant.name}: {what}{place_of(frames_of(participant.ident))}{of_loop}"


def frames_of(ident: int | None) -> list[FrameType]:
    """Return the frames of a thread, the innermost first."""
    innermost = sys._current_frames().get(ident or 0)
    return [frame for frame, _ in walk_stack(innermost)] if innermost else []


def _awaiting(coroutine: Any) -> Iterable[FrameType]:
    """Return the frames of a coroutine and of what it awaits, the innermost first."""
    frames: list[FrameType] = []
    while coroutine is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None:
                frames.append(frame)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return reversed(frames)


def place_of(frames: Iterable[FrameType]) -> str:
    """Return the innermost frame of the user's code, and the function that it called.

    Without any: the innermost frame that is not of this package.
    """
    called = innermost = ""
    for frame in frames:
        package, code = _package(frame), frame.f_code
        here = f"{short_name(code.co_filename)}:{frame.f_lineno} {code.co_name}()"
        if package not in sys.stdlib_module_names and package != _PACKAGE:
            return f" in {called}{here}"
        if package != _PACKAGE:
            innermost = innermost or f" in {here}"
        called = f"{here} <- "
    return innermost


def _module(frame: FrameType) -> str:
    return frame.f_globals.get("__name__") or ""


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def short_name(file: str) -> str:
    path = Path(file)
    return f"{path.parent.name}/{path.name}" if path.name == "__init__.py" else path.name
