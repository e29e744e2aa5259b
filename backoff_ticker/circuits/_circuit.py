"""When failures open a circuit, and its states, which follow one another.

Nothing here waits, reads a clock or calls the user's code. A state never changes: methods return
what follows, the same object where nothing changes. So callers may race: one replaces the state
that it has seen, and the others look again.
"""

from __future__ import annotations

from math import inf, nextafter

from .. import _process
from .._errors import CircuitState
from .._validation import as_count, as_number, as_seconds, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    History = tuple[int, int, Any]  # calls, those that failed, and what the window needs

CLOSED, OPEN, HALF_OPEN = CircuitState  # CPython looks up a member of an enumeration slowly
_MOST_CALLS = 10_000  # each call counts the bits of all: 0.3 µs


class Rules:
    """When failures open a circuit: failures in a row, or a share of the last calls or seconds."""

    def __init__(
        self, failures: Any, rate: Any, window_calls: Any, window: Any, minimum_calls: Any
    ) -> None:
        self.probes = self.successes = 1
        self.rate, self.calls, self.seconds = 1.0, 0, 0.0
        self.in_a_row = rate is None
        if self.in_a_row:
            if not (window_calls is window is minimum_calls is None):
                raise TypeError("window_calls, window and minimum_calls need a failure_rate")
            self.minimum = 5 if failures is None else as_count("failures", failures, 1, also="None")
            self.shown = "{1} of {rules.minimum} failures in a row"
            return
        if failures is not None or (window is not None and window_calls is not None):
            clash = "window or window_calls" if failures is None else "failures or failure_rate"
            raise TypeError(f"CircuitBreaker() takes {clash}, not both")
        self.rate = as_number("failure_rate", rate)
        if not 0.0 < self.rate <= 1.0:
            raise ValueError(f"failure_rate must be > 0 and <= 1, not {safe_repr(rate)}")
        least = None if minimum_calls is None else as_count("minimum_calls", minimum_calls, 1)
        if window is not None:
            expected = "a finite number of seconds >= 0.001 or a timedelta"
            self.seconds = as_seconds("window", window, expected, 0.001)
            self.minimum = least or 20
            self.shown = "{1} of {0} calls failed in {rules.seconds} s"
            return
        size = 100 if window_calls is None else window_calls
        self.calls = as_count("window_calls", size, 1, also="None")
        if size > _MOST_CALLS:
            raise ValueError(f"window_calls must be <= 10000, not {size}: for more, use window")
        if least is not None and least > size:
            raise ValueError(f"minimum_calls must be <= window_calls ({size}), not {least}")
        self.minimum = least or min(20, size)
        self.shown = "{1} of the last {0} calls failed"

    def recorded(self, history: History, failed: bool, now: float) -> History:
        """Return the history after one more call."""
        calls, failures, window = history
        if self.calls:  # the window is an int of one bit for each call
            window = (window << 1 | failed) & ((1 << self.calls) - 1)
            return min(calls + 1, self.calls), window.bit_count(), window
        if self.in_a_row:
            return (failures + 1, failures + 1, 0) if failed else (0, 0, 0)
        # The window has the calls and failures of each tenth of its time in which a call ended, so
        # it covers at least nine tenths. A slower thread counts where the others are.
        number = now // (self.seconds / 10)
        window = {tenth: window[tenth] for tenth in window or () if tenth > number - 10}
        number = max([number, *window])
        calls, failures = window.get(number, (0, 0))
        window[number] = calls + 1, failures + failed
        calls, failures = map(sum, zip(*window.values(), strict=True))
        return calls, failures, window


class CircuitTicket:
    """What ``CircuitBreaker.allow()`` returns, to be passed to ``record()`` or ``release()``."""

    # All calls of a closed circuit share one, each probe has its own; a change makes new ones.
    __slots__ = ("expires", "process")

    def __init__(self) -> None:
        self.process: int = _process.generation
        self.expires: float = inf  # when another call may take the place of this probe


class CircuitGuard:
    """What ``CircuitBreaker.guard()`` returns: a block for one call, which may be left anywhere.

    Entering it raises what ``allow()`` does, or a RuntimeError the second time; leaving it, what
    ``record()`` does.
    """

    __slots__ = ("_breaker", "_ticket")

    def __init__(self, breaker: Any) -> None:
        self._breaker = breaker
        self._ticket: CircuitTicket | None = None

    def __enter__(self) -> Self:
        if self._ticket is not None:
            raise RuntimeError("a guard is for one block: call guard() again for another one")
        self._ticket = self._breaker.allow()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._breaker.record(self._ticket, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._breaker.record(self._ticket, error)


class Circuit:
    """A state of a circuit. An open one stays ``OPEN`` here when its time is over."""

    history: Any = None  # closed: what the rules know of its calls
    ticket: CircuitTicket | None = None  # closed: of all its calls
    steady: CircuitTicket | None = None  # closed: the same, if a success changes nothing
    until: float | None = None  # open: when a probe is let through; None: the policy will say it
    # Open: when it opened, and whether it was closed before; None: the policy has been asked.
    question: tuple[float, bool] | None = None
    succeeded: int = 0  # half-open: how many probes have

    def __init__(self, rules: Rules, state: CircuitState, **rest: Any) -> None:
        self.rules = rules
        self.state = state
        # Not closed: the probes that run, and whether they count: not if it has opened since.
        self.probes: dict[CircuitTicket, bool] = {}
        vars(self).update(rest)

    def closed(self, ticket: CircuitTicket | None = None, history: History = (0, 0, 0)) -> Circuit:
        """Return a closed circuit: a new one, or that of ``ticket`` with another history."""
        ticket = ticket or CircuitTicket()
        steady = ticket if self.rules.in_a_row and not history[0] else None
        return Circuit(self.rules, CLOSED, history=history, ticket=ticket, steady=steady)

    def opened(self, since: float, until: float | None = None) -> Circuit:
        """Return an open circuit, for which the policy is to be asked if it may end."""
        question = self.question or (since, self.state is CLOSED)
        probes = dict.fromkeys(self.probes, False)
        return Circuit(self.rules, OPEN, until=until, question=question, probes=probes)

    def answered(self, question: object, until: float | None) -> Circuit:
        """Return the state after the policy has answered; ``until=None``: it has failed."""
        until = until if self.until is None else self.until
        is_known = self.question is question and until is not None
        return Circuit(self.rules, OPEN, until=until, probes=self.probes) if is_known else self

    def admitted(self, ticket: CircuitTicket, now: float) -> Circuit:
        """Return the state with a probe that holds ``ticket``, if there is a place for it."""
        held = self._held(now)
        if self.state_at(now) is not HALF_OPEN or len(held) >= self.rules.probes:
            return self
        probes = {**{probe: self.probes[probe] for probe in held}, ticket: True}
        return Circuit(self.rules, HALF_OPEN, probes=probes, succeeded=self.succeeded)

    def ended(self, ticket: CircuitTicket, failed: bool | None, now: float) -> Circuit:
        """Return the state after a call; ``failed=None``: it says nothing about the service."""
        if ticket is self.ticket and failed is not None:
            rules, history = self.rules, self.rules.recorded(self.history, failed, now)
            # The quotient of two whole numbers is rounded as the rate was: 7 of 100 is 0.07.
            is_enough = history[0] >= rules.minimum and history[1] / history[0] >= rules.rate
            if failed and is_enough:
                return self.opened(now)
            return self if history == self.history else self.closed(ticket, history)
        probes = self.probes.copy()
        counts = probes.pop(ticket, None)
        if counts is None:
            return self
        succeeded = self.succeeded + (counts and failed is False)
        if succeeded >= self.rules.successes:
            return self.closed()
        after = Circuit(**{**vars(self), "probes": probes, "succeeded": succeeded})
        return after.opened(now) if counts and failed else after

    def state_at(self, now: float) -> CircuitState:
        """Return the state that a call would meet."""
        return HALF_OPEN if self.until is not None and self.until <= now else self.state

    def seconds_left(self, now: float) -> float | None:
        """Return how long no call is let through; None if that is not known."""
        if self.state_at(now) is HALF_OPEN:
            return None if len(self._held(now)) >= self.rules.probes else 0.0
        if self.until is None:
            return 0.0
        if self.until == inf:
            return None
        left = max(0.0, self.until - now)
        # Rounded up: a caller that waits exactly so long must not come too early.
        return left if now + left >= self.until else nextafter(left, inf)

    def _held(self, now: float) -> list[CircuitTicket]:
        """Return the tickets that hold a place: not those from before a fork."""
        here = _process.generation
        return [probe for probe in self.probes if now < probe.expires and probe.process == here]

    def shown(self, now: float) -> str:
        """Return the state and what matters in it, for people."""
        state, left = self.state_at(now), self.seconds_left(now)
        if state is CLOSED:
            return f"closed, {self.rules.shown.format(*self.history, rules=self.rules)}"
        if state is HALF_OPEN:
            return f"half-open, {self.succeeded} of {self.rules.successes} successes"
        return "open until reset()" if left is None else f"open, {round(left, 3)} s left"
