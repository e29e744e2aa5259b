"""``current_attempt``: once this module is imported, all runs that begin show their attempts.

The first import may come inside an attempt that nothing shows yet. Its run is then looked for in
the frames of the callers, once.
"""

from __future__ import annotations

import sys
from opcode import opmap

from . import _tries
from ._attempt_context import (
    CurrentAttempt,
    attempt_here,
    enter_run,
    show,
    show_next_attempt,
    shown_here,
)
from ._attempts import Attempt
from ._engine import perform
from ._run import Run
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any


def current_attempt() -> CurrentAttempt | None:
    """Return the attempt that the calling code runs in; None outside of a retry.

    Call it in the operation, in functions that the operation calls, and in hooks, predicates and
    policies of the retry: there it is the attempt that has just ended or is about to begin. Of
    nested retries it is the innermost. It also works in an operation of a hedged call.

    The attempt is kept in a context variable. Coroutines, tasks that an attempt starts, and
    ``asyncio.to_thread()`` see it; a thread that an attempt starts sees it only if it runs in a
    copy of the context (``sys.flags.thread_inherit_context``: then each thread does).

    Retries show their attempts once it was imported, because that makes each call slower. If the
    first import comes inside an attempt, that attempt is seen all the same, but no other one that
    has begun before.

    Example:
        >>> from backoff_ticker import ZeroBackOff, current_attempt, retry
        >>> @retry(ZeroBackOff(), max_attempts=3)
        ... def fetch():
        ...     print("attempt", current_attempt().number)
        ...     raise ConnectionError("no route")
        >>> try:
        ...     fetch()
        ... except ConnectionError:
        ...     print(current_attempt())
        attempt 1
        attempt 2
        attempt 3
        None

    Thread safety: any thread or task; each sees its own attempt.
    """
    here = attempt_here()
    if not isinstance(here, _EarlyAttempt):
        return here
    if here.frame is not None:
        if _is_running(here.frame):
            return here
        here.frame = None
        here._run.close()
    show(here.before)  # in each context that has it: it has ended
    return attempt_here()


# Before Python 3.13, the last instruction of a frame that is suspended; from then on, the next one.
_SUSPENDED_AT = {opmap["YIELD_VALUE"], opmap["RESUME"]}


class _EarlyAttempt(CurrentAttempt):
    """An attempt of a function that began before the import, and does not hide itself."""

    __slots__ = ("before", "frame")

    before: Any
    frame: Any


def _is_running(frame: FrameType) -> bool:
    """Whether a frame runs in any thread, or is that of a coroutine that is suspended."""
    if frame.f_code.co_code[frame.f_lasti] in _SUSPENDED_AT:
        return True
    return any(frame in _callers(each) for each in sys._current_frames().values())


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _run_in(frame: FrameType) -> Run | None:
    """Return the run whose attempt is made in a frame."""
    code, values = frame.f_code, frame.f_locals
    if code is perform.__code__:
        return values["run"]  # type: ignore[no-any-return]
    if code.co_filename == _tries.__file__ and code.co_name == "call":
        names = ("options", "name", "function", "args", "kwargs", "attempts", "began")
        return Run(*map(values.get, names))  # type: ignore[arg-type]
    for each in values.values():
        if each.__class__ is Attempt and each._is_entered and each._attempts._open is each:
            loop = each._attempts
            return loop._run or loop._new_run(loop._began)
    return None


def _show_attempt_around() -> None:
    """Show the innermost attempt that began before this import, if any."""
    for frame in _callers(sys._getframe(2)):  # not its own: it would refer to itself
        run = _run_in(frame)
        if run is None:
            continue
        run.is_tracked = True  # so it shows its next attempts, and hides the last one
        if frame.f_code.co_filename == _tries.__file__:  # this run is only made here
            attempt = _EarlyAttempt(run, run.attempts)
            attempt.frame = frame
            attempt.before = shown_here()
            show(attempt)
        else:
            enter_run(run)
            show_next_attempt(run)
        return


settings.change("tracks_attempts", True)  # noqa: FBT003 - a setting and its value
_show_attempt_around()
