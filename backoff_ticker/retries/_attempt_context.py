"""Which attempt runs here: a context variable that runs set, if ``current_attempt`` is in use.

``settings.tracks_attempts`` is true once ``current_attempt`` was imported. A run looks at it once,
when it begins.
"""

from __future__ import annotations

from contextvars import ContextVar

from .._operation import name_of
from ._attempt_scope import limits_of, token_of_run
from ._run import NO_KWARGS, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..cancellation import CancellationToken

    # The first attempt of a function: what was shown before, what a run is made of, and, if
    # somebody has asked, the CurrentAttempt. It has ended once it has no operation.
    First = list[Any]


class CurrentAttempt:
    """The attempt that code runs in, as returned by ``current_attempt()``.

    Example:
        >>> from backoff_ticker import ZeroBackOff, current_attempt, retry
        >>> @retry(ZeroBackOff(), timeout=60)
        ... def fetch():
        ...     attempt = current_attempt()
        ...     if attempt.number < 2:
        ...         raise ConnectionError
        ...     return attempt
        >>> fetch()
        <CurrentAttempt 2 of fetch>

    Thread safety: any thread may read it.

    Attributes:
        name: What ``name=`` says, or else the ``__qualname__`` of the operation.
        number: The number of the attempt, from 1.
        waited: The seconds that the run has spent in waits between attempts so far.
    """

    __slots__ = ("_run", "_token", "name", "number", "waited")

    def __init__(self, run: Run, number: int, token: CancellationToken | None = None) -> None:
        self._run = run
        self._token = token
        self.name: str = run.name
        self.number: int = number
        self.waited: float = run.waited

    @property
    def time_left(self) -> float | None:
        """The seconds until the first time limit; None if there is no limit.

        The limits are ``timeout``, the deadline of the token and, in a coroutine,
        ``attempt_timeout``; ``max_elapsed_time`` does not count, as it cuts no attempt. The value
        is 0.0 once a limit has passed, which an attempt in a thread may see. Many clients refuse a
        timeout of 0: pass ``max(0.01, attempt.time_left)``.
        """
        run = self._run
        limits = [when for when, _ in limits_of(run, run.token)]
        cut_at = run.cut_at
        if cut_at is not None and run.attempts == self.number:
            limits.append(cut_at)
        return max(0.0, min(limits) - run.clock.monotonic()) if limits else None

    @property
    def token(self) -> CancellationToken:
        """A token to pass to the functions that the attempt calls, as ``Attempt.token``.

        In a hedged call each attempt has its own.
        """
        return token_of_run(self._run) if self._token is None else self._token

    def __repr__(self) -> str:
        return f"<CurrentAttempt {self.number} of {self.name}>"


_DEEPEST = 100
"""How many runs inside each other are looked at as one is left out of order."""

_OUTER, _PARTS, _NAME, _OPERATION, _ARGS, _KWARGS, _ATTEMPT = 0, slice(1, 8), 2, 3, 4, 5, 8
"""What is where in a ``First``."""

_here: ContextVar[CurrentAttempt | First | None] = ContextVar("current_attempt", default=None)

shown_here: Callable[[], Any] = _here.get
show: Callable[[Any], Any] = _here.set


def attempt_here() -> CurrentAttempt | None:
    """Return the innermost attempt around the caller."""
    shown = _here.get()
    return shown if shown.__class__ is not list else _attempt_of(shown)  # type: ignore[return-value]


def _attempt_of(first: First) -> CurrentAttempt:
    # Threads may ask at once, in copies of the context, and as it ends: one of them is first.
    if len(first) == _ATTEMPT:
        first.append(CurrentAttempt(Run(*first[_PARTS]), 1))
    attempt: CurrentAttempt = first[_ATTEMPT]
    if first[_OPERATION] is None:
        attempt._run.close()
    return attempt


def run_of(first: First) -> Run:
    """Return the run of a first attempt."""
    return _attempt_of(first)._run


def leave_first(first: First) -> None:
    """Show what was shown before the first attempt; close the run, if there is one.

    A context may keep the attempt for a long time: so it drops what was called. May be repeated.
    """
    if _here.get() is first:
        _here.set(first[_OUTER])
    else:
        _unlink(first, first[_OUTER])
    first[_OUTER] = None
    if first[_NAME] is None:
        first[_NAME] = name_of(first[_OPERATION])
    first[_OPERATION] = None
    first[_ARGS], first[_KWARGS] = (), NO_KWARGS
    if len(first) > _ATTEMPT:
        first[_ATTEMPT]._run.close()


def show_next_attempt(run: Run) -> None:
    """Show the attempt that begins here."""
    run.current = CurrentAttempt(run, run.attempts)
    _here.set(run.current)


def show_attempt(run: Run, number: int, token: CancellationToken) -> None:
    """Show an attempt of a hedged call in its own task, or in a context of its own."""
    _here.set(CurrentAttempt(run, number, token))


def enter_run(run: Run) -> None:
    """Begin to show the attempts of a run here, up to ``leave_run()``."""
    here = _here.get()
    if here is not run.current:
        run.outer = here
    _here.set(run.current or run.outer)


def leave_run(run: Run) -> None:
    """Show what was shown before ``enter_run()``."""
    if run.current is not None and _here.get() is run.current:
        _here.set(run.outer)
    elif run.current is not None:
        _unlink(run.current, run.outer)


def _unlink(left: CurrentAttempt | First, outer: Any) -> None:
    """Remove what is left before something that was entered inside it.

    Generators that take turns do so. Otherwise the inner one would show the outer one again, and
    nobody would hide it. No effect where a coroutine is closed in another context.
    """
    here: Any = _here.get()
    for _ in range(_DEEPEST):
        if here is None:
            return
        before = here[_OUTER] if here.__class__ is list else here._run.outer
        if before is left:
            if here.__class__ is list:
                here[_OUTER] = outer
            else:
                here._run.outer = outer
            return
        here = before


def close_run(run: Run) -> None:
    """Show the previous attempt again, and cancel the token of the run. May be repeated."""
    leave_run(run)
    run.close()
