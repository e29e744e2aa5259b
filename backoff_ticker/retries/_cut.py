"""What cuts a running attempt that is a coroutine: the token, and the limits of time."""

from __future__ import annotations

from .._token import derive_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._scope import Scope
    from .._token import CancellationToken
    from ._run import Run

__all__ = ["cutting", "run_token"]


def cutting(run: Run) -> Scope | None:
    """Return the scope for the attempt that begins; None if nothing can cut it.

    A token that is cancelled already cuts nothing: only a first attempt is made in spite of it,
    and that is to have its chance.
    """
    token = run.token
    if token is not None and token.cancelled:
        token = None
    run.cutter = token
    limit = run.rules.attempt_timeout
    if limit is None and run.deadline is None:
        return None if token is None else token.scope()
    limits = [] if limit is None else [run.clock.monotonic() + limit]
    return _within(run, token, limits).scope()


def run_token(run: Run) -> CancellationToken:
    """Return a token for an attempt: cancelled with the run's, and by its time-out."""
    return _within(run, run.token, [])


def _within(run: Run, token: CancellationToken | None, limits: list[float]) -> CancellationToken:
    limits = limits if run.deadline is None else [*limits, run.deadline]
    if token is not None and token.deadline is not None:
        ahead = 0.0 if run.skipping is None else run.skipping.skipped
        limits = [*limits, token.deadline + ahead]
    return derive_token(run.clock, () if token is None else (token,), min(limits, default=None))
