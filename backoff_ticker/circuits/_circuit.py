"""When failures open a circuit, and its states, which follow one another.

.. code-block:: text

             too many failures           its time is over, and a call comes
    Closed ───────────────────> Open ─────────────────────────────────> HalfOpen
      ^                           ^                                      │    │
      │                           └──────────── a probe fails ───────────┘    │
      └────────────────────── enough probes succeed ──────────────────────────┘

Nothing here waits, reads a clock or calls the user's code. A state never changes, nor does the
history of results in it: methods return what follows, the same object where nothing changes. So
callers may race: one replaces the state that it has seen, and the others look again.
"""

from __future__ import annotations

from math import inf, nextafter

from .. import _process
from .._errors import CircuitState
from .._validation import as_count, as_number, as_seconds, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    Bits = tuple[int, int, int]
    Buckets = tuple[int, int, tuple[tuple[float, int, int], ...]]

CLOSED, OPEN, HALF_OPEN = CircuitState  # CPython looks up a member of an enumeration slowly

_BUCKETS = 10
_MOST_CALLS = 10_000  # each call shifts the bits of all: 0.3 µs


class Rules:
    """When failures open a circuit, how many probes run at once, how many successes close it."""

    empty: Any
    probes: int
    successes: int


class InARow(Rules):
    """Opens after a number of failures in a row; the history is how many there are now."""

    empty = 0

    def __init__(self, most: int) -> None:
        self.most = most

    def recorded(self, history: int, failed: bool, now: float) -> int:  # noqa: ARG002
        return history + 1 if failed else 0

    def is_reached(self, history: int) -> bool:
        return history >= self.most

    def shown(self, history: int) -> str:
        return f"{history} of {self.most} failures in a row"


class _Rate(Rules):
    """Opens at a share of failures; a history begins with how many calls and failures it covers."""

    def __init__(self, rate: float, minimum: int) -> None:
        self.rate = rate
        self.minimum = minimum

    def is_reached(self, history: Bits | Buckets) -> bool:
        # The quotient of two whole numbers is rounded as the rate was: 7 of 100 is 0.07.
        return history[0] >= self.minimum and history[1] / history[0] >= self.rate


class LastCalls(_Rate):
    """Counts the last calls; the history ends with an int that has one bit for each call."""

    empty = (0, 0, 0)

    def __init__(self, rate: float, size: int, minimum: int) -> None:
        super().__init__(rate, minimum)
        self.size = size
        self._mask = (1 << size) - 1

    def recorded(self, history: Bits, failed: bool, now: float) -> Bits:  # noqa: ARG002
        calls, failures, bits = history
        if calls == self.size:
            failures -= bits >> (calls - 1)  # the oldest call leaves
        else:
            calls += 1
        return calls, failures + failed, (bits << 1 | failed) & self._mask

    def shown(self, history: Bits) -> str:
        return f"{history[1]} of the last {history[0]} calls failed"


class LastSeconds(_Rate):
    """Counts the calls that ended in the last seconds.

    The history ends with a bucket for each tenth of that time in which a call ended: its number,
    its calls and its failures. So it covers at least nine tenths of the time.
    """

    empty = (0, 0, ())

    def __init__(self, rate: float, seconds: float, minimum: int) -> None:
        super().__init__(rate, minimum)
        self.seconds = seconds

    def recorded(self, history: Buckets, failed: bool, now: float) -> Buckets:
        number = now // (self.seconds / _BUCKETS)
        calls, failures, buckets = history
        if buckets and buckets[-1][0] >= number:  # greater: a thread that was slower to get here
            number, last_calls, last_failures = buckets[-1]
            last = number, last_calls + 1, last_failures + failed
            return calls + 1, failures + failed, (*buckets[:-1], last)
        kept = [each for each in buckets if each[0] > number - _BUCKETS]
        kept.append((number, 1, int(failed)))
        return sum(each[1] for each in kept), sum(each[2] for each in kept), tuple(kept)

    def shown(self, history: Buckets) -> str:
        return f"{history[1]} of {history[0]} calls failed in {self.seconds} s"


def rules_of(
    failures: int | None,
    failure_rate: float | None,
    window_calls: int | None,
    window: float | timedelta | None,
    minimum_calls: int | None,
) -> InARow | LastCalls | LastSeconds:
    """Return the rules that the options of a circuit breaker describe, checked."""
    if failure_rate is None:
        given = {"window_calls": window_calls, "window": window, "minimum_calls": minimum_calls}
        for name, value in given.items():
            if value is not None:
                raise TypeError(f"{name}={safe_repr(value)} needs a failure_rate")
        return InARow(5 if failures is None else as_count("failures", failures, 1, also="None"))
    if failures is not None or (window is not None and window_calls is not None):
        clash = "window or window_calls" if failures is None else "failures or failure_rate"
        raise TypeError(f"CircuitBreaker() takes {clash}, not both")
    rate = as_number("failure_rate", failure_rate)
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"failure_rate must be > 0 and <= 1, not {safe_repr(failure_rate)}")
    least = None if minimum_calls is None else as_count("minimum_calls", minimum_calls, 1)
    if window is not None:
        expected = "a finite number of seconds >= 0.001 or a timedelta"
        return LastSeconds(rate, as_seconds("window", window, expected, 0.001), least or 20)
    size = 100 if window_calls is None else as_count("window_calls", window_calls, 1, also="None")
    if size > _MOST_CALLS:
        raise ValueError(
            f"window_calls must be <= {_MOST_CALLS}, not {size}: for more, use window=seconds"
        )
    if least is not None and least > size:
        raise ValueError(f"minimum_calls must be <= window_calls ({size}), not {least}")
    return LastCalls(rate, size, least or min(20, size))


class CircuitTicket:
    """What ``CircuitBreaker.allow()`` returns, to be passed to ``record()`` or ``release()``.

    Example:
        >>> from backoff_ticker import CircuitBreaker
        >>> breaker = CircuitBreaker()
        >>> ticket = breaker.allow()
        >>> breaker.record(ticket)
    """

    # A result counts only in the state that its ticket belongs to: all calls of a closed circuit
    # share a ticket, each probe has its own, and none is used again after a change.
    __slots__ = ("expires", "process")

    def __init__(self) -> None:
        self.process: int = _process.generation
        self.expires: float = inf  # when another call may take the place of this probe

    def __repr__(self) -> str:
        return "<CircuitTicket>"


class Circuit:
    """A state of a circuit; a new one is half-open."""

    __slots__ = (
        *("history", "is_first", "probes", "rules", "since", "state", "steady", "succeeded"),
        *("ticket", "until"),
    )

    def __init__(self, rules: InARow | LastCalls | LastSeconds) -> None:
        self.rules = rules
        self.state = HALF_OPEN  # but an open circuit stays OPEN here when its time is over
        self.is_first = False  # the next opening, or this one, is the first since it was closed
        # Closed:
        self.history: Any = None  # the results, as the rules need them
        self.ticket: CircuitTicket | None = None  # of all calls
        self.steady: CircuitTicket | None = None  # the same, if a success changes nothing
        # Open:
        self.until: float | None = None  # when a probe is let through; None: the policy will say it
        self.since: float | None = None  # when it opened, if the policy was not asked yet
        # Half-open:
        self.probes: tuple[CircuitTicket, ...] = ()  # that run
        self.succeeded = 0

    def closed(self, history: Any = None, ticket: CircuitTicket | None = None) -> Circuit:
        """Return a closed circuit: a new one, or the one of ``ticket`` with another history."""
        after = Circuit(self.rules)
        after.state, after.is_first = CLOSED, True
        after.history = history = self.rules.empty if history is None else history
        after.ticket = ticket = ticket or CircuitTicket()
        after.steady = ticket if history == 0 else None
        return after

    def opened(self, until: float | None, since: float | None, *, is_first: bool) -> Circuit:
        """Return an open circuit."""
        after = Circuit(self.rules)
        after.state, after.is_first, after.until, after.since = OPEN, is_first, until, since
        return after

    def probed(self, probes: tuple[CircuitTicket, ...], succeeded: int) -> Circuit:
        """Return a half-open circuit."""
        after = Circuit(self.rules)
        after.probes, after.succeeded = probes, succeeded
        return after

    def state_at(self, now: float) -> CircuitState:
        """Return the state that a call would meet."""
        is_over = self.until is not None and self.until <= now
        return HALF_OPEN if is_over else self.state

    def admitted(self, ticket: CircuitTicket, now: float) -> Circuit | None:
        """Return the state with a probe that holds ``ticket``; None if there is no place for it."""
        if self.state_at(now) is not HALF_OPEN:
            return None
        held = self._held(now)
        is_full = len(held) >= self.rules.probes
        return None if is_full else self.probed((*held, ticket), self.succeeded)

    def ended(self, ticket: CircuitTicket, failed: bool | None, now: float) -> Circuit:
        """Return the state after a call; ``failed=None``: it says nothing about the service."""
        rules: Any = self.rules
        if self.state is CLOSED and ticket is self.ticket and failed is not None:
            history = rules.recorded(self.history, failed, now)
            if failed and rules.is_reached(history):
                return self.opened(None, now, is_first=True)
            return self if history == self.history else self.closed(history, ticket)
        if ticket not in self.probes:
            return self
        if failed:
            return self.opened(None, now, is_first=False)
        succeeded = self.succeeded + (failed is False)
        if succeeded >= rules.successes:
            return self.closed()
        return self.probed(tuple(each for each in self.probes if each is not ticket), succeeded)

    def seconds_left(self, now: float) -> float | None:
        """Return how long no call is let through; None if that is not known."""
        if self.state is not OPEN:
            is_full = len(self._held(now)) >= self.rules.probes
            return None if is_full else 0.0
        until = now if self.until is None else self.until
        if until == inf:
            return None
        left = max(0.0, until - now)
        # Rounded up: a caller that waits exactly so long must not come too early.
        return left if now + left >= until else nextafter(left, inf)

    def _held(self, now: float) -> tuple[CircuitTicket, ...]:
        """Return the tickets that hold a place: not those from before a fork."""
        here = _process.generation
        return tuple(each for each in self.probes if now < each.expires and each.process == here)

    def shown(self, now: float) -> str:
        """Return the state and what matters in it, for people."""
        state, left = self.state_at(now), self.seconds_left(now)
        if state is CLOSED:
            return f"closed, {self.rules.shown(self.history)}"
        if state is HALF_OPEN:
            return f"half-open, {self.succeeded} of {self.rules.successes} successes"
        return "open until reset()" if left is None else f"open, {round(left, 3)} s left"
