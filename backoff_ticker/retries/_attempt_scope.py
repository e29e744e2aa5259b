"""The scope that cuts one attempt of a coroutine, and the tokens of attempts."""

from __future__ import annotations

from operator import itemgetter

from ..cancellation import CancellableBlock, derive_token
from ..clock import later
from ._outcome import StopReason
from ._run import LATE_TOKEN, TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cancellation import CancellationToken
    from ._run import Run


class AttemptScope:
    """A scope that may cut one attempt, and tells the run if it did; enter its ``block``."""

    __slots__ = ("_by_time", "_run", "_token", "block")

    def __init__(
        self,
        run: Run,
        token: CancellationToken | None,
        cancelled_by: CancellationToken,
        by_time: StopReason | None,
    ) -> None:
        self._run = run
        self._token = token
        self._by_time = by_time
        self.block = CancellableBlock(cancelled_by)

    def leave(self, error: BaseException | None) -> bool:
        """Leave the scope, and tell the run if the attempt was cut.

        Returns whether ``block.settle()`` has to be awaited.
        """
        cancelled, is_pending = self.block.leave(error)
        if cancelled is not None:
            by_token = self._token is not None and self._token.cancelled
            self._run.cut = error
            self._run.cut_for = StopReason.CANCELLED if by_token else self._by_time
        self._run.cut_at = None
        return is_pending


def attempt_scope(run: Run) -> AttemptScope | None:
    """Return the scope of the attempt that begins; None if nothing can cut it."""
    token = run.token
    if token is not None and run.attempts <= 1 and token.cancelled:
        token = None  # the first attempt always runs: a token cancelled before must not cut it
    limit = run.options.attempt_timeout
    skips = run.skipping is not None and token is not None and token.deadline is not None
    if limit is None and run.deadline is None and not skips:
        if token is None:
            return None
        return AttemptScope(run, token, token, StopReason.CANCELLED)
    limits: list[tuple[float, StopReason | None]] = [*limits_of(run, token)]
    if limit is not None:
        run.cut_at = later(run.clock.monotonic(), limit)
        limits.append((run.cut_at, None))
    when, reason = min(limits, key=itemgetter(0))
    return AttemptScope(run, token, _derived(run, token, when), reason)


def token_of_run(run: Run) -> CancellationToken:
    """Return the one token for what all attempts call; it is cancelled when the run ends, too."""
    token = run.__dict__.get(TOKEN)
    if token is None:
        made = token_of_attempts(run)
        token = run.__dict__.setdefault(TOKEN, made)  # two threads may have made one
        if token is None:  # the run has ended without one
            token = run.__dict__.setdefault(LATE_TOKEN, made)
            token.cancel()
    return token  # type: ignore[no-any-return]


def token_of_attempts(run: Run) -> CancellationToken:
    """Return a new token, which is cancelled with the run's token, and at its time limits."""
    limits = limits_of(run, run.token)
    return _derived(run, run.token, min(limits)[0] if limits else None)


def limits_of(run: Run, token: CancellationToken | None) -> Sequence[tuple[float, StopReason]]:
    """Return when an attempt is cut, on the run's clock, and why the run then ends."""
    limits = []
    if token is not None and token.deadline is not None:
        limits.append((token.deadline, StopReason.CANCELLED))
    if run.deadline is not None:
        limits.append((run.deadline, StopReason.DEADLINE))
    return limits


def _derived(run: Run, token: CancellationToken | None, when: float | None) -> CancellationToken:
    clock = run.clock
    if run.skipping is not None:
        # The timers of the underlying clock agree exactly with its time.
        clock = run.skipping.clock
        when = None if when is None else later(when, -run.skipping.skipped)
    return derive_token(clock, () if token is None else (token,), when)
