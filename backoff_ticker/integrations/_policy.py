"""The delays of a policy, one after the other, where another package asks for them."""

from __future__ import annotations

from copy import copy

from .._sentinels import Stop
from ..policies import BackOffWrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..policies import BackOff


def started(backoff: BackOff) -> BackOffWrapper:
    """Return a copy of a policy that was reset, and that checks the delays of the policy.

    Raises:
        TypeError: ``backoff`` is not a policy.
    """
    run = copy(BackOffWrapper(backoff))
    run.reset()
    return run


def next_delay(run: BackOff) -> float | None:
    """Return the next delay of a started policy, in seconds, or None for ``STOP``."""
    delay = run.next_backoff()
    return None if isinstance(delay, Stop) else delay
