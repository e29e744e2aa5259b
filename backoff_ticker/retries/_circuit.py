"""What a circuit breaker decides: states that follow one another, and when failures open it.

Nothing here waits, reads a clock or calls the user's code: each method gets the time, and returns
the state that follows, which is the same object where nothing changes, else a new one. So callers
may race: one of them replaces the state that it has looked at, the others look again.

.. code-block:: text

             too many failures            the policy was asked
    Closed ───────────────────> Opening ────────────────────────> Open
      ^                            ^                               │ its time is over,
      │                            └──── a probe fails ────────┐   v and a call comes
      └────────────── enough probes succeed ───────────────── HalfOpen

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
from .._validation import as_count, as_number, as_seconds, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Protocol

    class Threshold(Protocol):
        """When failures open a circuit. A history is a value that is never changed."""

        @property
        def empty(self) -> Any:
            """The history without any call."""

        def recorded(self, history: Any, failed: bool, now: float) -> Any:  # noqa: FBT001
            """Return the history with one more call."""

        def is_reached(self, history: Any) -> bool:
            """Whether a failure, which the history ends with, opens the circuit."""

        def shown(self, history: Any) -> str:
            """Return the history in words."""


_BUCKETS = 10
_SHORTEST_WINDOW = 0.001
_MOST_CALLS = 10_000
"""A history has a bit for each call, which each call shifts: 10,000 of them take 0.3 µs."""


class InARow:
    """Opens after a number of failures without a success in between; the history is their count."""

    __slots__ = ("most",)

    empty = 0

    def __init__(self, most: int) -> None:
        self.most = most

    def recorded(self, history: int, failed: bool, now: float) -> int:  # noqa: ARG002, FBT001
        return history + 1 if failed else 0

    def is_reached(self, history: int) -> bool:
        return history >= self.most

    def shown(self, history: int) -> str:
        return f"{history} of {self.most} failures in a row"


class LastCalls:
    """Opens at a share of failures among the last calls.

    The history is one bit for each call, the number of calls, and that of failures among them.
    """

    __slots__ = ("_mask", "minimum", "rate", "size")

    empty = (0, 0, 0)

    def __init__(self, rate: float, size: int, minimum: int) -> None:
        self.rate = rate
        self.size = size
        self.minimum = minimum
        self._mask = (1 << size) - 1

    def recorded(
        self,
        history: tuple[int, int, int],
        failed: bool,  # noqa: FBT001
        now: float,  # noqa: ARG002
    ) -> tuple[int, int, int]:
        bits, calls, failures = history
        if calls == self.size:
            failures -= bits >> (calls - 1)  # the oldest call leaves
        else:
            calls += 1
        return (bits << 1 | failed) & self._mask, calls, failures + failed

    def is_reached(self, history: tuple[int, int, int]) -> bool:
        _, calls, failures = history
        return _is_reached(self, calls, failures)

    def shown(self, history: tuple[int, int, int]) -> str:
        return f"{history[2]} of the last {history[1]} calls failed"


class LastSeconds:
    """Opens at a share of failures among the calls that ended in the last seconds.

    The history is a bucket for each tenth of that time in which a call ended: its number, its calls
    and its failures. So it covers at least nine tenths of the time.
    """

    __slots__ = ("_width", "minimum", "rate", "seconds")

    empty: tuple[tuple[float, int, int], ...] = ()

    def __init__(self, rate: float, seconds: float, minimum: int) -> None:
        self.rate = rate
        self.seconds = seconds
        self.minimum = minimum
        self._width = seconds / _BUCKETS

    def recorded(
        self,
        history: tuple[tuple[float, int, int], ...],
        failed: bool,  # noqa: FBT001
        now: float,
    ) -> tuple[tuple[float, int, int], ...]:
        number = now // self._width
        calls = failures = 0
        if history and history[-1][0] >= number:  # greater: a thread that was slower to get here
            number, calls, failures = history[-1]
            history = history[:-1]
        first = 0
        while first < len(history) and history[first][0] <= number - _BUCKETS:
            first += 1
        return (*history[first:], (number, calls + 1, failures + failed))

    def is_reached(self, history: tuple[tuple[float, int, int], ...]) -> bool:
        return _is_reached(self, *_sums(history))

    def shown(self, history: tuple[tuple[float, int, int], ...]) -> str:
        calls, failures = _sums(history)
        return f"{failures} of {calls} calls failed in {self.seconds} s"


def _sums(history: tuple[tuple[float, int, int], ...]) -> tuple[int, int]:
    return sum(each[1] for each in history), sum(each[2] for each in history)


def _is_reached(threshold: LastCalls | LastSeconds, calls: int, failures: int) -> bool:
    # The quotient of two whole numbers is rounded as the rate was: 7 of 100 is 0.07.
    return calls >= threshold.minimum and failures / calls >= threshold.rate


def threshold_of(
    failures: int | None,
    failure_rate: float | None,
    window_calls: int | None,
    window: float | timedelta | None,
    minimum_calls: int | None,
) -> Threshold:
    """Return the threshold that the options of a circuit breaker describe.

    Raises:
        TypeError, ValueError: An option is invalid, or does not go with another.
    """
    if failure_rate is None:
        given = {"window_calls": window_calls, "window": window, "minimum_calls": minimum_calls}
        for name, value in given.items():
            if value is not None:
                raise TypeError(f"{name}={safe_repr(value)} needs a failure_rate")
        return InARow(5 if failures is None else as_count("failures", failures, 1, also="None"))
    if failures is not None:
        raise TypeError("CircuitBreaker() takes failures or failure_rate, not both")
    if window is not None and window_calls is not None:
        raise TypeError("CircuitBreaker() takes window or window_calls, not both")
    rate = as_number("failure_rate", failure_rate)
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"failure_rate must be > 0 and <= 1, not {safe_repr(failure_rate)}")
    least = None if minimum_calls is None else as_count("minimum_calls", minimum_calls, 1)
    if window is not None:
        return LastSeconds(rate, _as_window(window), 20 if least is None else least)
    size = 100 if window_calls is None else _as_window_calls(window_calls)
    if least is not None and least > size:
        raise ValueError(f"minimum_calls must be <= window_calls ({size}), not {least}")
    return LastCalls(rate, size, min(20, size) if least is None else least)


def _as_window(window: float | timedelta) -> float:
    expected = "a finite number of seconds >= 0.001 or a timedelta"
    seconds = as_seconds("window", window, expected)
    if seconds < _SHORTEST_WINDOW:
        raise ValueError(f"window must be {expected}, not {safe_repr(window)}")
    return seconds


def _as_window_calls(window_calls: int) -> int:
    size = as_count("window_calls", window_calls, 1, also="None")
    if size > _MOST_CALLS:
        raise ValueError(
            f"window_calls must be <= {_MOST_CALLS}, not {size}: for more, use window=seconds"
        )
    return size


class Rules:
    """The numbers of a circuit breaker.

    Attributes:
        threshold: When failures open the circuit.
        probes: How many calls at once are let through a half-open circuit.
        successes: How many of them have to succeed before it closes.
    """

    __slots__ = ("probes", "successes", "threshold")

    def __init__(self, threshold: Threshold, probes: int, successes: int) -> None:
        self.threshold = threshold
        self.probes = probes
        self.successes = successes


class CircuitTicket:
    """What ``CircuitBreaker.allow()`` returns, to be passed to ``record()`` or ``release()``.

    Attributes:
        generation: The process in which it was made.
        expires: When another call may take the place of this probe.

    Example:
        >>> from backoff_ticker import CircuitBreaker
        >>> breaker = CircuitBreaker()
        >>> ticket = breaker.allow()
        >>> breaker.record(ticket)
    """

    __slots__ = ("expires", "generation")

    def __init__(self) -> None:
        self.generation: int = _process.generation
        self.expires: float = inf

    def __repr__(self) -> str:
        return "<CircuitTicket>"


class Circuit:
    """A state of a circuit, which is never changed.

    Attributes:
        state: What users call it.
    """

    __slots__ = ()

    state: CircuitState

    @property
    def ticket(self) -> CircuitTicket | None:
        """The ticket of each call while the circuit is closed; None in the other states."""
        return None

    def admitted(self, rules: Rules, ticket: CircuitTicket, now: float) -> Circuit | None:  # noqa: ARG002
        """Return the state with a probe that holds ``ticket``; None if there is no place for it."""
        return None

    def finished(self, rules: Rules, ticket: CircuitTicket, failed: bool, now: float) -> Circuit:  # noqa: ARG002, FBT001
        """Return the state after a call has succeeded or failed."""
        return self

    def released(self, ticket: CircuitTicket) -> Circuit:  # noqa: ARG002
        """Return the state after a call has ended without a result that counts."""
        return self

    def opened(self, now: float, seconds: float) -> Opening:
        """Return the state after the circuit was opened by hand for some time."""
        return Opening(now, is_first=False, seconds=seconds)

    def seconds_left(self, rules: Rules, now: float) -> float | None:  # noqa: ARG002
        """Return how long no call is let through; None if that is not known."""
        return None


class Closed(Circuit):
    """All calls are let through.

    Attributes:
        ticket: What each of them gets.
        history: Their results, as the threshold needs them.
    """

    __slots__ = ("history", "ticket")

    state = CircuitState.CLOSED

    def __init__(self, ticket: CircuitTicket, history: Any) -> None:
        self.ticket: CircuitTicket = ticket
        self.history = history

    def finished(self, rules: Rules, ticket: CircuitTicket, failed: bool, now: float) -> Circuit:  # noqa: FBT001
        if ticket is not self.ticket:
            return self
        threshold = rules.threshold
        history = threshold.recorded(self.history, failed, now)
        if failed and threshold.is_reached(history):
            return Opening(now, is_first=True)
        return self if history == self.history else Closed(ticket, history)

    def opened(self, now: float, seconds: float) -> Opening:
        return Opening(now, is_first=True, seconds=seconds)

    def seconds_left(self, rules: Rules, now: float) -> float:  # noqa: ARG002
        return 0.0


class Opening(Circuit):
    """No call is let through; the policy has not been asked yet.

    Attributes:
        since: When it opened.
        is_first: Whether it was closed before.
        seconds: For how long, whatever the policy answers; None: as long as it answers.
    """

    __slots__ = ("is_first", "seconds", "since")

    state = CircuitState.OPEN

    def __init__(self, since: float, *, is_first: bool, seconds: float | None = None) -> None:
        self.since = since
        self.is_first = is_first
        self.seconds = seconds

    def opened(self, now: float, seconds: float) -> Opening:
        return Opening(now, is_first=self.is_first, seconds=seconds)

    def seconds_left(self, rules: Rules, now: float) -> float:  # noqa: ARG002
        return 0.0 if self.seconds is None else max(0.0, self.since + self.seconds - now)


class Open(Circuit):
    """No call is let through for some time.

    Attributes:
        until: When that is over; infinite: it lasts until a reset.
    """

    __slots__ = ("until",)

    state = CircuitState.OPEN

    def __init__(self, until: float) -> None:
        self.until = until

    def admitted(self, rules: Rules, ticket: CircuitTicket, now: float) -> Circuit | None:  # noqa: ARG002
        return None if now < self.until else HalfOpen((ticket,), 0)

    def seconds_left(self, rules: Rules, now: float) -> float | None:  # noqa: ARG002
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
        if len(held) >= rules.probes:
            return None
        return HalfOpen((*held, ticket), self.succeeded)

    def finished(self, rules: Rules, ticket: CircuitTicket, failed: bool, now: float) -> Circuit:  # noqa: FBT001
        if ticket not in self.running:
            return self
        if failed:
            return Opening(now, is_first=False)
        succeeded = self.succeeded + 1
        if succeeded >= rules.successes:
            return Closed(CircuitTicket(), rules.threshold.empty)
        return HalfOpen(self._without(ticket), succeeded)

    def released(self, ticket: CircuitTicket) -> Circuit:
        if ticket not in self.running:
            return self
        return HalfOpen(self._without(ticket), self.succeeded)

    def seconds_left(self, rules: Rules, now: float) -> float | None:
        return 0.0 if len(self._held(now)) < rules.probes else None

    def _held(self, now: float) -> tuple[CircuitTicket, ...]:
        """Return the tickets that hold a place; those of threads that a fork left behind do not."""
        generation = _process.generation
        return tuple(
            each for each in self.running if now < each.expires and each.generation == generation
        )

    def _without(self, ticket: CircuitTicket) -> tuple[CircuitTicket, ...]:
        return tuple(each for each in self.running if each is not ticket)
