"""When failures open a circuit.

A history is a value that is never changed: ``recorded()`` returns the one that follows.
"""

from __future__ import annotations

from .._validation import as_count, as_number, as_seconds, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta

    Calls = tuple[int, int, int]
    Buckets = tuple[tuple[float, int, int], ...]

_BUCKETS = 10
_MOST_CALLS = 10_000  # each call shifts the bits of all: 0.3 µs


class InARow:
    """Opens after a number of failures without a success in between; the history is their count."""

    empty = 0

    def __init__(self, most: int) -> None:
        self.most = most

    def recorded(self, history: int, failed: bool, now: float) -> int:  # noqa: ARG002
        return history + 1 if failed else 0

    def is_reached(self, history: int) -> bool:
        return history >= self.most

    def shown(self, history: int) -> str:
        return f"{history} of {self.most} failures in a row"


class LastCalls:
    """Opens at a share of failures among the last calls.

    The history is one bit for each call, the number of calls, and that of failures among them.
    """

    empty = (0, 0, 0)

    def __init__(self, rate: float, size: int, minimum: int) -> None:
        self.rate = rate
        self.size = size
        self.minimum = minimum
        self._mask = (1 << size) - 1

    def recorded(self, history: Calls, failed: bool, now: float) -> Calls:  # noqa: ARG002
        bits, calls, failures = history
        if calls == self.size:
            failures -= bits >> (calls - 1)  # the oldest call leaves
        else:
            calls += 1
        return (bits << 1 | failed) & self._mask, calls, failures + failed

    def is_reached(self, history: Calls) -> bool:
        # The quotient of two whole numbers is rounded as the rate was: 7 of 100 is 0.07.
        return history[1] >= self.minimum and history[2] / history[1] >= self.rate

    def shown(self, history: Calls) -> str:
        return f"{history[2]} of the last {history[1]} calls failed"


class LastSeconds:
    """Opens at a share of failures among the calls that ended in the last seconds.

    The history is a bucket for each tenth of that time in which a call ended: its number, its calls
    and its failures. So it covers at least nine tenths of the time.
    """

    empty: Buckets = ()

    def __init__(self, rate: float, seconds: float, minimum: int) -> None:
        self.rate = rate
        self.seconds = seconds
        self.minimum = minimum
        self._width = seconds / _BUCKETS

    def recorded(self, history: Buckets, failed: bool, now: float) -> Buckets:
        number = now // self._width
        calls = failures = 0
        if history and history[-1][0] >= number:  # greater: a thread that was slower to get here
            number, calls, failures = history[-1]
            history = history[:-1]
        kept = [each for each in history if each[0] > number - _BUCKETS]
        return (*kept, (number, calls + 1, failures + failed))

    def is_reached(self, history: Buckets) -> bool:
        calls, failures = _sums(history)
        return calls >= self.minimum and failures / calls >= self.rate

    def shown(self, history: Buckets) -> str:
        calls, failures = _sums(history)
        return f"{failures} of {calls} calls failed in {self.seconds} s"


def _sums(history: Buckets) -> tuple[int, int]:
    return sum(each[1] for each in history), sum(each[2] for each in history)


if TYPE_CHECKING:
    Threshold = InARow | LastCalls | LastSeconds


def threshold_of(
    failures: int | None,
    failure_rate: float | None,
    window_calls: int | None,
    window: float | timedelta | None,
    minimum_calls: int | None,
) -> Threshold:
    """Return the threshold that the options of a circuit breaker describe, checked."""
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
