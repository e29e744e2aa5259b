"""What cuts a running attempt that is a coroutine: the token, and the limits of time."""

from __future__ import annotations

from ..cancellation import derive_token
from ._outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cancellation import CancellationToken, Scope
    from ._run import Run

    Limit = tuple[float, int, StopReason | None]


class Cut:
    """What may cut one attempt.

    Attributes:
        scope: The scope around the attempt.
    """

    __slots__ = ("_by_time", "_run", "_token", "scope")

    def __init__(
        self, run: Run, token: CancellationToken | None, scope: Scope, by_time: StopReason | None
    ) -> None:
        self._run = run
        self._token = token
        self._by_time = by_time
        self.scope = scope

    def leave(self, error: BaseException | None) -> bool:
        """Leave the scope, and tell the run if it was cut; whether a cancel is still to come."""
        scope = self.scope
        unmet = scope.leave(error)
        if scope.error is not None:
            scope.error = None  # it would lead to the frame that holds the scope
            by_token = self._token is not None and self._token.cancelled
            self._run.cut = error
            self._run.cut_for = StopReason.CANCELLED if by_token else self._by_time
        return unmet


def cutting(run: Run) -> Cut | None:
    """Return what may cut the attempt that begins; None if nothing can.

    A token that was cancelled before the first attempt does not: it is made in spite of that, and
    is to have its chance.
    """
    token = run.token
    if token is not None and run.attempts <= 1 and token.cancelled:
        token = None
    limit = run.rules.attempt_timeout
    skips = run.skipping is not None and token is not None and token.deadline is not None
    if limit is None and run.deadline is None and not skips:
        return None if token is None else Cut(run, token, token.scope(), StopReason.CANCELLED)
    limits = _limits(run, token)
    if limit is not None:
        limits.append((run.clock.monotonic() + limit, 2, None))
    when, _, reason = min(limits)
    return Cut(run, token, _derived(run, token, when).scope(), reason)


def run_token(run: Run) -> CancellationToken:
    """Return a token for an attempt: cancelled with the run's, and by its time-out."""
    limits = _limits(run, run.token)
    return _derived(run, run.token, min(limits)[0] if limits else None)


def _limits(run: Run, token: CancellationToken | None) -> list[Limit]:
    """Return until when an attempt may run, on the run's clock, and what each limit means."""
    limits: list[Limit] = []
    if token is not None and token.deadline is not None:
        limits.append((token.deadline, 0, StopReason.CANCELLED))
    if run.deadline is not None:
        limits.append((run.deadline, 1, StopReason.DEADLINE))
    return limits


def _derived(run: Run, token: CancellationToken | None, when: float | None) -> CancellationToken:
    clock = run.clock
    if run.skipping is not None:
        clock = run.skipping.clock  # its timers and its time agree to the last digit
        when = None if when is None else when - run.skipping.skipped
    return derive_token(clock, () if token is None else (token,), when)
