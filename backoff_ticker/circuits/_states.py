"""The states of a circuit, which follow one another.

Nothing here waits, reads a clock or calls the user's code: each method gets the time, and returns
the state that follows, which is the same object where nothing changes, else a new one. So callers
may race: one of them replaces the state that it has looked at, the others look again.

.. code-block:: text

             too many failures           its time is over, and a call comes
    Closed ───────────────────> Open ─────────────────────────────────> HalfOpen
      ^                           ^                                      │    │
      │                           └──────────── a probe fails ───────────┘    │
      └────────────────────── enough probes succeed ──────────────────────────┘

Invariants:
    * A result counts only in the state that its ticket belongs to: while closed all calls share a
      ticket, each probe has its own, and neither is used again after a change.
    * A place of a probe is free once its result is known, or its time is over and another call
      wants it.
"""

from __future__ import annotations

from math import inf

from .. import _process
from .._errors import CircuitState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._thresholds import Threshold


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

    __slots__ = ("expires", "generation")

    def __init__(self) -> None:
        self.generation: int = _process.generation
        self.expires: float = inf  # when another call may take the place of this probe

    def __repr__(self) -> str:
        return "<CircuitTicket>"


class Circuit:
    """A state of a circuit, which is never changed.

    Attributes:
        state: What users call it.
        ticket: The ticket of each call while the circuit is closed; None in the other states.
        steady: The ticket with which a success changes nothing; None: there is no such ticket.
        is_first: Whether the next opening is the first one after the circuit was closed.
        since: When it opened, as long as the policy was not asked how long it stays open.
    """

    __slots__ = ()

    state: CircuitState
    ticket: CircuitTicket | None = None
    steady: CircuitTicket | None = None
    is_first: bool = False
    since: float | None = None

    def state_at(self, now: float) -> CircuitState:  # noqa: ARG002
        """Return the state that a call would meet."""
        return self.state

    def admitted(self, rules: Rules, ticket: CircuitTicket, now: float) -> Circuit | None:  # noqa: ARG002
        """Return the state with a probe that holds ``ticket``; None if there is no place for it."""
        return None

    def finished(self, rules: Rules, ticket: CircuitTicket, failed: bool, now: float) -> Circuit:  # noqa: ARG002
        """Return the state after a call has succeeded or failed."""
        return self

    def released(self, ticket: CircuitTicket) -> Circuit:  # noqa: ARG002
        """Return the state after a call has ended without a result that counts."""
        return self

    def seconds_left(self, rules: Rules, now: float) -> float | None:  # noqa: ARG002
        """Return how long no call is let through; None if that is not known."""
        return 0.0


class Closed(Circuit):
    """All calls are let through; ``history`` has their results, as the threshold needs them."""

    __slots__ = ("history", "steady", "ticket")

    state = CircuitState.CLOSED
    is_first = True

    def __init__(self, ticket: CircuitTicket, history: Any) -> None:
        self.ticket: CircuitTicket | None = ticket
        self.history = history
        self.steady = ticket if history == 0 else None  # of failures in a row: there are none

    def finished(self, rules: Rules, ticket: CircuitTicket, failed: bool, now: float) -> Circuit:
        if ticket is not self.ticket:
            return self
        history: Any = rules.threshold.recorded(self.history, failed, now)
        if failed and rules.threshold.is_reached(history):
            return Open(since=now, is_first=True)
        return self if history == self.history else Closed(ticket, history)


class Open(Circuit):
    """No call is let through before some time.

    Attributes:
        until: That time; infinite: a reset; None: the policy has not said it yet.
    """

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
        if self.until is None:
            return 0.0
        return None if self.until == inf else max(0.0, self.until - now)


class HalfOpen(Circuit):
    """Some calls are let through, to see whether they succeed.

    Attributes:
        running: The tickets of those that have not ended.
        succeeded: How many have succeeded.
    """

    __slots__ = ("running", "succeeded")

    state = CircuitState.HALF_OPEN

    def __init__(self, running: tuple[CircuitTicket, ...], succeeded: int) -> None:
        self.running = running
        self.succeeded = succeeded

    def admitted(self, rules: Rules, ticket: CircuitTicket, now: float) -> Circuit | None:
        held = self._held(now)
        return HalfOpen((*held, ticket), self.succeeded) if len(held) < rules.probes else None

    def finished(self, rules: Rules, ticket: CircuitTicket, failed: bool, now: float) -> Circuit:
        if ticket not in self.running:
            return self
        if failed:
            return Open(since=now)
        if self.succeeded + 1 >= rules.successes:
            return Closed(CircuitTicket(), rules.threshold.empty)
        return HalfOpen(self.released(ticket).running, self.succeeded + 1)

    def released(self, ticket: CircuitTicket) -> HalfOpen:
        if ticket not in self.running:
            return self
        return HalfOpen(tuple(each for each in self.running if each is not ticket), self.succeeded)

    def seconds_left(self, rules: Rules, now: float) -> float | None:
        return 0.0 if len(self._held(now)) < rules.probes else None

    def _held(self, now: float) -> tuple[CircuitTicket, ...]:
        """Return the tickets that hold a place; those of threads that a fork left behind do not."""
        generation = _process.generation
        return tuple(
            each for each in self.running if now < each.expires and each.generation == generation
        )
