"""``current_attempt``: importing this module lets all runs that begin from then on show theirs."""

from __future__ import annotations

import sys
from opcode import opmap
from threading import get_ident

from . import _tries
from ._attempt_context import CurrentAttempt, attempt_here, enter_run, show_next_attempt
from ._attempts import Attempt
from ._engine import perform
from ._run import Run
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from ._attempts import Attempts

# Before Python 3.13, the last instruction of a frame that is suspended; from then on, the next one.
_SUSPENDED_AT = {opmap["YIELD_VALUE"], opmap["RESUME"]}


def current_attempt() -> CurrentAttempt | None:
    """Return the attempt that the calling code runs in; None outside of a retry.

    Call it in the operation, in functions that the operation calls, and in hooks, predicates and
    policies of the retry: there it is the attempt that has just ended or is about to begin. Of
    nested retries it is the innermost. It also works in an operation of a hedged call.

    The attempt is kept in a context variable. Coroutines, tasks that an attempt starts, and
    ``asyncio.to_thread()`` see it; a thread that an attempt starts sees it only if it runs in a
    copy of the context (``sys.flags.thread_inherit_context``: then each thread does).

    Retries show their attempts once it was imported, because that makes each call slower. If the
    first import comes inside an attempt, the code that this attempt calls sees it all the same, but
    no other attempt that has begun before.

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
    for thread, frame, attempt in _before[:]:
        if frame in _callers():
            return here or attempt
        if thread == get_ident() and not _is_suspended(frame):
            _before.clear()
    return here


def _is_suspended(frame: FrameType) -> bool:
    """Whether a frame is that of a coroutine or generator which has not ended."""
    return frame.f_code.co_code[frame.f_lasti] in _SUSPENDED_AT


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _run_in(frame: FrameType) -> Run | None:
    """Return the run of a function of which an attempt is made in a frame."""
    code, values = frame.f_code, frame.f_locals
    if code is perform.__code__:
        return values["run"]  # type: ignore[no-any-return]
    if code.co_filename == _tries.__file__ and code.co_name == "call":
        names = ("options", "name", "function", "args", "kwargs", "attempts", "began")
        return Run(*map(values.get, names))  # type: ignore[arg-type]
    return None


def _loop_in(frame: FrameType) -> Attempts | None:
    """Return the loop whose block runs in a frame."""
    for each in frame.f_locals.values():
        if each.__class__ is Attempt and each._is_entered and each._attempts._open is each:
            return each._attempts
    return None


def _attempt_before() -> list[tuple[int, FrameType, CurrentAttempt]]:
    """Return the innermost attempt that began before this import, with its frame, if any.

    The attempt of a loop is shown at once, as its block takes back what is shown; that of a
    function is this one as long as its frame runs.
    """
    for frame in _callers():
        run, loop = _run_in(frame), _loop_in(frame)
        if run is not None:
            run.is_tracked = True  # so the next ones are shown
            return [(get_ident(), frame, CurrentAttempt(run, run.attempts))]
        if loop is not None:
            run = loop._run or loop._new_run(loop._began)
            run.is_tracked = True
            enter_run(run)
            show_next_attempt(run)
            return []
    return []


settings.track_attempts()

# The first import may come from inside of an attempt that nothing shows.
_before = _attempt_before()
