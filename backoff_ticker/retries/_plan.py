"""When the next attempt follows: the policies, and the wait for a circuit that is open.

A retry uses this, and so does a hedged call.
"""

from __future__ import annotations

from .._errors import CircuitOpen, CircuitState
from .._validation import safe_repr
from ..policies import End, PolicyRun, start_policy
from ._no_wait import SkippingClock
from ._outcome import Ending, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..clock import Clock
    from ..policies import BackOff
    from ._limits import Limits
    from ._options import Options

_SHORTEST_REFUSAL = 0.01
"""Seconds until the next attempt if a circuit is open and nobody knows for how long: while probes
are on their way, a policy without delays would spin."""


def start_policies(options: Options, clock: Clock) -> Mapping[int, Callable[[], Any]]:
    """Return how to ask a run's own copy of each policy, by its id. The copies begin here."""
    underlying = clock.clock if isinstance(clock, SkippingClock) else clock
    return {
        id(policy): PolicyRun(start_policy("backoff", policy, clock), underlying, ()).ask
        for policy in options.policies
    }


def ending_by_policy(policy: BackOff, end: object, limits: Limits) -> Ending:
    """Return how a run ends as a policy has no delay left, or has failed."""
    if isinstance(end, End) and end.error is not None:
        return Ending(StopReason.FAILED, "the back-off policy failed", end.error)
    if limits.is_cancelled():
        return limits.ending_by_token()
    return Ending(StopReason.EXHAUSTED, f"the policy stopped: {safe_repr(policy)}")


def ending_by_circuit(refusal: CircuitOpen) -> Ending | None:
    """Return how a run ends if a circuit stays open until somebody resets it; None: it does not."""
    if refusal.seconds is None and refusal.state is CircuitState.OPEN:
        return Ending(StopReason.CIRCUIT_OPEN, "the circuit is open until a reset")
    return None


def wait_for_circuit(refusal: CircuitOpen, delay: float, limits: Limits) -> float | Ending:
    """Return ``delay``, or the time until an open circuit lets calls through, if that is longer."""
    left = refusal.seconds or _SHORTEST_REFUSAL
    if isinstance(limits.clock, SkippingClock):
        # The circuit's own clock goes on as it is: it would be met again and again.
        why = "the circuit is open, and no_wait() does not skip its time"
        return Ending(StopReason.CIRCUIT_OPEN, why)
    ending = limits.reached_by(max(delay, left))
    if ending is not None and ending.reason is StopReason.DEADLINE and left > delay:
        why = f"the circuit stays open longer than timeout={limits.options.timeout!r} allows"
        return Ending(StopReason.CIRCUIT_OPEN, why)
    return ending or max(delay, left)
