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

    # How many calls it covers, how many of them failed, and what the window needs.
    History = tuple[int, int, Any]

CLOSED, OPEN, HALF_OPEN = CircuitState  # CPython looks up a member of an enumeration slowly

_BUCKETS = 10
_MOST_CALLS = 10_000  # each call shifts the bits of all: 0.3 µs


class Rules:
    """When failures open a circuit; these rules count failures in a row."""

    shown = "{1} of {rules.minimum} failures in a row"
    empty: History = (0, 0, 0)
    probes: int  # at once
    successes: int  # that close it

    def __init__(self, minimum: int, rate: float = 1.0, window: float = 0) -> None:
        self.minimum = minimum
        self.rate = rate
        self.window = window

    def recorded(self, history: History, failed: bool, now: float) -> History:  # noqa: ARG002
        """Return the history after one more call."""
        count = history[0] + 1 if failed else 0
        return count, count, 0

    def is_reached(self, history: History) -> bool:
        # The quotient of two whole numbers is rounded as the rate was: 7 of 100 is 0.07.
        return history[0] >= self.minimum and history[1] / history[0] >= self.rate


class LastCalls(Rules):
    """Rules for a share of the last calls; the history ends with an int of one bit for each."""

    shown = "{1} of the last {0} calls failed"

    def recorded(self, history: History, failed: bool, now: float) -> History:  # noqa: ARG002
        calls, failures, bits = history
        if calls == self.window:
            calls -= 1
            oldest = bits >> calls
            failures, bits = failures - oldest, bits - (oldest << calls)
        return calls + 1, failures + failed, bits << 1 | failed


class LastSeconds(Rules):
    """Rules for a share of the calls that ended in the last seconds.

    The history ends with a bucket for each tenth of that time in which a call ended: its number,
    its calls and its failures. So it covers at least nine tenths of the time.
    """

    shown = "{1} of {0} calls failed in {rules.window} s"
    empty = (0, 0, ())

    def recorded(self, history: History, failed: bool, now: float) -> History:
        number = now // (self.window / _BUCKETS)
        calls, failures, buckets = history
        if buckets and buckets[-1][0] >= number:  # greater: a thread that was slower to get here
            number, last_calls, last_failures = buckets[-1]
            last = number, last_calls + 1, last_failures + failed
            return calls + 1, failures + failed, (*buckets[:-1], last)
        kept = [each for each in buckets if each[0] > number - _BUCKETS]
        kept.append((number, 1, int(failed)))
        return sum(each[1] for each in kept), sum(each[2] for each in kept), tuple(kept)


def rules_of(
    failures: int | None,
    failure_rate: float | None,
    window_calls: int | None,
    window: float | timedelta | None,
    minimum_calls: int | None,
) -> Rules:
    """Return the rules that the options of a circuit breaker describe, checked."""
    if failure_rate is None:
        given = {"window_calls": window_calls, "window": window, "minimum_calls": minimum_calls}
        for name, value in given.items():
            if value is not None:
                raise TypeError(f"{name}={safe_repr(value)} needs a failure_rate")
        return Rules(5 if failures is None else as_count("failures", failures, 1, also="None"))
    if failures is not None or (window is not None and window_calls is not None):
        clash = "window or window_calls" if failures is None else "failures or failure_rate"
        raise TypeError(f"CircuitBreaker() takes {clash}, not both")
    rate = as_number("failure_rate", failure_rate)
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"failure_rate must be > 0 and <= 1, not {safe_repr(failure_rate)}")
    least = None if minimum_calls is None else as_count("minimum_calls", minimum_calls, 1)
    if window is not None:
        expected = "a finite number of seconds >= 0.001 or a timedelta"
        return LastSeconds(least or 20, rate, as_seconds("window", window, expected, 0.001))
    size = 100 if window_calls is None else as_count("window_calls", window_calls, 1, also="None")
    if size > _MOST_CALLS:
        raise ValueError(
            f"window_calls must be <= {_MOST_CALLS}, not {size}: for more, use window=seconds"
        )
    if least is not None and least > size:
        raise ValueError(f"minimum_calls must be <= window_calls ({size}), not {least}")
    return LastCalls(least or min(20, size), rate, size)


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
    """A state of a circuit."""

    __slots__ = (
        *("history", "is_first", "probes", "rules", "since", "state", "steady", "succeeded"),
        *("ticket", "until"),
    )

    def __init__(self, rules: Rules, state: CircuitState, *, is_first: bool = False) -> None:
        self.rules = rules
        self.state = state  # an open circuit stays OPEN here when its time is over
        self.is_first = is_first  # the next opening, or this one, is the first since it was closed
        # Closed:
        self.history: Any = None
        self.ticket: CircuitTicket | None = None  # of all calls
        self.steady: CircuitTicket | None = None  # the same, if a success changes nothing
        # Open:
        self.until: float | None = None  # when a probe is let through; None: the policy will say it
        self.since: float | None = None  # when it opened, if the policy was not asked yet
        # Half-open:
        self.probes: tuple[CircuitTicket, ...] = ()  # that run
        self.succeeded = 0

    def closed(self, history: History | None = None) -> Circuit:
        """Return a closed circuit: a new one, or this one with another history."""
        after = Circuit(self.rules, CLOSED, is_first=True)
        after.history = self.rules.empty if history is None else history
        after.ticket = CircuitTicket() if history is None else self.ticket
        after.steady = None if self.rules.window or after.history[0] else after.ticket
        return after

    def opened(self, until: float | None, since: float | None, *, is_first: bool) -> Circuit:
        """Return an open circuit."""
        after = Circuit(self.rules, OPEN, is_first=is_first)
        after.until, after.since = until, since
        return after

    def probed(self, probes: tuple[CircuitTicket, ...], succeeded: int) -> Circuit:
        """Return a half-open circuit."""
        after = Circuit(self.rules, HALF_OPEN)
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
            return self if history == self.history else self.closed(history)
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
            return f"closed, {self.rules.shown.format(*self.history, rules=self.rules)}"
        if state is HALF_OPEN:
            return f"half-open, {self.succeeded} of {self.rules.successes} successes"
        return "open until reset()" if left is None else f"open, {round(left, 3)} s left"
