"""``current_attempt``: once this module is imported, all runs that begin show their attempts.

The first import may come inside an attempt that the context variable does not show. It is then
looked for in the frames of the callers.
"""

from __future__ import annotations

import sys

from . import _tries
from ._attempt_context import CurrentAttempt, attempt_here
from ._attempts import Attempt
from ._engine import perform
from ._run import Run
from ._settings import Change, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def current_attempt() -> CurrentAttempt | None:
    """Return the attempt that the calling code runs in; None outside of a retry.

    Call it in the operation, in functions that the operation calls, and in hooks, predicates and
    policies of the retry: there it is the attempt that has just ended or is about to begin. Of
    nested retries it is the innermost. It also works in an operation of a hedged call.

    The attempt is kept in a context variable. Coroutines, tasks that an attempt starts, and
    ``asyncio.to_thread()`` see it; a thread that an attempt starts sees it only if it runs in a
    copy of the context (``sys.flags.thread_inherit_context``: then each thread does).

    Retries show their attempts once it was imported, because that makes each call slower. If the
    first import comes inside an attempt, the functions that this attempt calls see it all the same,
    but the tasks and threads that it starts do not, and its token is not cancelled as it ends.

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
    return attempt_here() or (_attempt_in_frames() if _began_early else None)


_first_tries: list[Run] = []
"""The run of the cheap first try that was found last: so that it is the same when asked again."""


def _attempt_in_frames() -> CurrentAttempt | None:
    """Return the innermost attempt in the frames of the callers, which no context shows."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        run = _run_in(frame)
        if run is not None:
            if run.current is None or run.current.number != run.attempts:
                run.current = CurrentAttempt(run, run.attempts)
            return run.current  # type: ignore[no-any-return]
        frame = frame.f_back
    return None


def _run_in(frame: FrameType) -> Run | None:
    """Return the run whose attempt is made in a frame."""
    code, values = frame.f_code, frame.f_locals
    if code is perform.__code__:
        return values["run"]  # type: ignore[no-any-return]
    if code.co_filename == _tries.__file__ and code.co_name == "call":
        for run in _first_tries[:]:  # a copy: threads may ask at once
            if run.kwargs is values["kwargs"]:
                run.attempts = values["attempts"]
                return run
        names = ("options", "name", "function", "args", "kwargs", "attempts", "began")
        run = Run(*map(values.get, names))  # type: ignore[arg-type]
        _first_tries[:] = [run]
        return run
    for each in list(values.values()):  # of a module: other threads may change them
        if type(each) is Attempt and each._is_entered and each._attempts._open is each:
            loop = each._attempts
            return loop._run or loop._new_run(loop._began)
    return None


settings.update(Change("tracks_attempts", True).added)  # noqa: FBT003 - a setting and its value
_began_early: bool = _attempt_in_frames() is not None
