"""The states of a circuit, which follow one another.

Nothing here waits, reads a clock or calls the user's code: each method returns the state that
follows, the same object where nothing changes. So callers may race: one of them replaces the state
that it has looked at, the others look again.

.. code-block:: text

             too many failures           its time is over, and a call comes
    Closed ───────────────────> Open ─────────────────────────────────> HalfOpen
      ^                           ^                                      │    │
      │                           └──────────── a probe fails ───────────┘    │
      └────────────────────── enough probes succeed ──────────────────────────┘

A result counts only in the state that its ticket belongs to: while closed all calls share a ticket,
each probe has its own, and neither is used again after a change.
"""

from __future__ import annotations

from math import inf, nextafter

from .. import _process
from .._errors import CircuitState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._thresholds import Threshold

    Failed = bool | None  # None: the call tells nothing


class Rules:
    """When failures open a circuit, how many probes run at once, how many successes close it."""

    def __init__(self, threshold: Threshold, probes: int, successes: int) -> None:
        self.threshold = threshold
        self.probes = probes
        self.successes = successes


class CircuitTicket:
    """What ``CircuitBreaker.allow()`` returns, to be passed to ``record()`` or ``release()``.

    Example:
        >>> from backoff_ticker import CircuitBreaker
        >>> breaker = CircuitBreaker()
        >>> ticket = breaker.allow()
        >>> breaker.record(ticket)
    """

    __slots__ = ("expires", "process")

    def __init__(self) -> None:
        self.process: int = _process.generation
        self.expires: float = inf  # when another call may take the place of this probe

    def __repr__(self) -> str:
        return "<CircuitTicket>"


class Circuit:
    """A state of a circuit, which is never changed."""

    __slots__ = ()

    state: CircuitState  # what users call it
    ticket: CircuitTicket | None = None  # of each call, while the circuit is closed
    steady: CircuitTicket | None = None  # with which a success changes nothing
    is_first: bool = False  # the next opening is the first one after the circuit was closed
    since: float | None = None  # it opened, but the policy was not asked yet for how long

    def state_at(self, now: float) -> CircuitState:  # noqa: ARG002
        """Return the state that a call would meet."""
        return self.state

    def admitted(self, rules: Rules, ticket: CircuitTicket, now: float) -> Circuit | None:  # noqa: ARG002
        """Return the state with a probe that holds ``ticket``; None if there is no place for it."""
        return None

    def ended(self, rules: Rules, ticket: CircuitTicket, failed: Failed, now: float) -> Circuit:  # noqa: ARG002
        """Return the state after a call."""
        return self

    def seconds_left(self, rules: Rules, now: float) -> float | None:  # noqa: ARG002
        """Return how long no call is let through; None if that is not known."""
        return 0.0


class Closed(Circuit):
    """All calls are let through; ``history`` has their results, as the threshold needs them."""

    __slots__ = ("history", "steady", "ticket")

    state = CircuitState.CLOSED
    is_first = True

    def __init__(self, history: Any, ticket: CircuitTicket | None = None) -> None:
        self.history = history
        self.ticket: CircuitTicket | None = ticket or CircuitTicket()
        self.steady = self.ticket if history == 0 else None  # there is no failure in a row

    def ended(self, rules: Rules, ticket: CircuitTicket, failed: Failed, now: float) -> Circuit:
        if failed is None or ticket is not self.ticket:
            return self
        history: Any = rules.threshold.recorded(self.history, failed, now)
        if failed and rules.threshold.is_reached(history):
            return Open(since=now, is_first=True)
        return self if history == self.history else Closed(history, ticket)


class Open(Circuit):
    """No call is let through before ``until``; infinite: a reset; None: the policy will say it."""

    __slots__ = ("is_first", "since", "until")

    state = CircuitState.OPEN

    def __init__(
        self, until: float | None = None, *, since: float | None = None, is_first: bool = False
    ) -> None:
        self.until = until
        self.since = since
        self.is_first = is_first

    def state_at(self, now: float) -> CircuitState:
        is_over = self.since is None and self.until is not None and self.until <= now
        return CircuitState.HALF_OPEN if is_over else CircuitState.OPEN

    def admitted(self, rules: Rules, ticket: CircuitTicket, now: float) -> Circuit | None:  # noqa: ARG002
        return HalfOpen((ticket,), 0) if self.state_at(now) is CircuitState.HALF_OPEN else None

    def seconds_left(self, rules: Rules, now: float) -> float | None:  # noqa: ARG002
        until = now if self.until is None else self.until
        if until == inf:
            return None
        left = max(0.0, until - now)
        # Rounded up: who waits so long, on a virtual clock to the bit, must not come too early.
        return left if now + left >= until else nextafter(left, inf)


class HalfOpen(Circuit):
    """Some calls are let through as probes: tickets of those ``running``, how many succeeded."""

    __slots__ = ("running", "succeeded")

    state = CircuitState.HALF_OPEN

    def __init__(self, running: tuple[CircuitTicket, ...], succeeded: int) -> None:
        self.running = running
        self.succeeded = succeeded

    def admitted(self, rules: Rules, ticket: CircuitTicket, now: float) -> Circuit | None:
        held = self._held(now)
        return HalfOpen((*held, ticket), self.succeeded) if len(held) < rules.probes else None

    def ended(self, rules: Rules, ticket: CircuitTicket, failed: Failed, now: float) -> Circuit:
        if ticket not in self.running:
            return self
        if failed:
            return Open(since=now)
        succeeded = self.succeeded + (failed is False)
        if succeeded >= rules.successes:
            return Closed(rules.threshold.empty)
        return HalfOpen(tuple(each for each in self.running if each is not ticket), succeeded)

    def seconds_left(self, rules: Rules, now: float) -> float | None:
        return 0.0 if len(self._held(now)) < rules.probes else None

    def _held(self, now: float) -> tuple[CircuitTicket, ...]:
        """Return the tickets that hold a place; those of threads that a fork left behind do not."""
        here = _process.generation
        return tuple(each for each in self.running if now < each.expires and each.process == here)
