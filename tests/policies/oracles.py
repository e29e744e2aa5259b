"""The rules of the sources, written down once more, from their text and not from the package.

Java counts whole milliseconds, Go whole nanoseconds, Perl seconds, and so do these functions. Each
``..._call`` does one call on a state, a dict, and returns what the source returns: -1 where it
stops. What the source would draw is handed in.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Values = dict[str, Any]
    PerlRule = Callable[[Values, Values], float]

STOPPED = -1
"""What all three return to say that there is no next attempt."""

JAVA_LARGEST = 2**31 - 1


def truncation(unit: float, multiplier: float, call: int) -> float:
    """Return how far below the plain product truncation to whole units can bring an interval.

    Each advance loses less than one unit, and multiplies what was lost before; a cap only takes
    away from the difference. So before call 1 it is 0, and then ``e = multiplier * e + unit``.
    """
    lost = 0.0
    for _ in range(call - 1):
        lost = multiplier * lost + unit
    return lost


def whole_units_apart(unit: float, multiplier: float, factor: float, call: int) -> float:
    """Return how far the delay of a source that counts whole units may be from the plain one.

    The interval is short by ``truncation``, at the ends of the draw times ``1 + factor``; the draw
    is over one unit more, which adds less than one, and its truncation takes away less than one.
    """
    return truncation(unit, multiplier, call) * (1.0 + factor) + unit


# Google's HTTP client for Java: ExponentialBackOff, in milliseconds


def java_draw(factor: float, drawn: float, interval: int) -> int:
    delta = factor * interval
    least, greatest = interval - delta, interval + delta
    return min(int(least + drawn * (greatest - least + 1)), JAVA_LARGEST)


def java_advance(interval: int, multiplier: float, maximum: int) -> int:
    return maximum if interval >= maximum / multiplier else int(interval * multiplier)


def java_call(
    options: Values, state: Values, call: str, now: int, draws: Iterator[float]
) -> int | None:
    """Do ``"next"`` or ``"reset"`` at ``now`` nanoseconds; the options are in milliseconds."""
    if call == "reset":
        state.update(interval=options["initial"], start=now)
        return None
    if (now - state["start"]) // 1_000_000 > options["elapsed"]:
        return STOPPED
    delay = java_draw(options["factor"], next(draws), state["interval"])
    state["interval"] = java_advance(state["interval"], options["multiplier"], options["maximum"])
    return delay


# cenkalti/backoff v4 for Go: ExponentialBackOff, in nanoseconds


def go_draw(factor: float, drawn: float, interval: int) -> int:
    if factor == 0:
        return interval
    delta = factor * float(interval)
    least, greatest = float(interval) - delta, float(interval) + delta
    return int(least + drawn * (greatest - least + 1))


def go_advance(interval: int, multiplier: float, maximum: int) -> int:
    if float(interval) >= float(maximum) / multiplier:
        return maximum
    return int(float(interval) * multiplier)


def go_call(
    options: Values, state: Values, call: str, now: int, draws: Iterator[float]
) -> int | None:
    """Do ``"next"`` or ``"reset"`` at ``now``; all times are nanoseconds."""
    if call == "reset":
        state.update(interval=options["initial"], start=now)
        return None
    drawn = next(draws) if options["factor"] else 0.0
    delay = state["drawn"] = go_draw(options["factor"], drawn, state["interval"])
    state["interval"] = go_advance(state["interval"], options["multiplier"], options["maximum"])
    if options["elapsed"] != 0 and now - state["start"] + delay > options["elapsed"]:
        return STOPPED
    return delay


# Algorithm::Backoff for Perl: the seven classes, in seconds


def _constant(options: Values, state: Values) -> float:
    return options["delay"]


def _exponential(options: Values, state: Values) -> float:
    try:
        power = float(options.get("exponent_base", 2)) ** (state["attempts"] - 1)
    except OverflowError:
        power = inf
    return options["initial_delay"] * power


def _fibonacci(options: Values, state: Values) -> float:
    first, second = options["initial_delay1"], options["initial_delay2"]
    if state["attempts"] == 1:
        state["pair"] = (0, first)
    elif state["attempts"] == 2:
        state["pair"] = (first, second)
    else:
        older, newer = state["pair"]
        state["pair"] = (newer, older + newer)
    return state["pair"][1]


def _on_success(options: Values, state: Values) -> float:
    return options.get("delay_on_success", 0)


def _from_previous(change: Callable[[Values, float], float]) -> PerlRule:
    def rule(options: Values, state: Values) -> float:
        if state["previous"] is None:
            state["previous"] = options["initial_delay"]
            return state["previous"]
        return change(options, state["previous"])

    return rule


_add_on_failure = _from_previous(lambda o, delay: delay + o["delay_increment_on_failure"])
_add_on_success = _from_previous(lambda o, delay: delay + o["delay_increment_on_success"])
_multiply_on_failure = _from_previous(lambda o, delay: delay * o["delay_multiple_on_failure"])
_multiply_on_success = _from_previous(lambda o, delay: delay * o["delay_multiple_on_success"])

PERL_CLASSES: dict[str, tuple[PerlRule, PerlRule]] = {
    "Constant": (_constant, _on_success),
    "Exponential": (_exponential, _on_success),
    "Fibonacci": (_fibonacci, _on_success),
    "LILD": (_add_on_failure, _add_on_success),
    "LIMD": (_add_on_failure, _multiply_on_success),
    "MILD": (_multiply_on_failure, _add_on_success),
    "MIMD": (_multiply_on_failure, _multiply_on_success),
}


class DecreasingTimestamp(Exception):
    """Where the Perl class dies."""


def perl_state(start: float) -> Values:
    return {"attempts": 0, "previous": None, "last": None, "start": start}


def perl_call(
    name: str,
    options: Values,
    state: Values,
    call: str,
    now: float,
    draws: Iterator[float],
) -> float:
    """Do ``"failure"`` or ``"success"`` with the timestamp ``now``.

    Raises:
        DecreasingTimestamp: It is less than the last that was accepted.
    """
    if call == "success":
        state["attempts"] = 0
    else:
        limit = options.get("max_actual_duration", 0)
        if limit > 0 and now - state["start"] >= limit:
            return STOPPED
        state["attempts"] += 1
        if options.get("max_attempts") and state["attempts"] >= options["max_attempts"]:
            return STOPPED
    if state["last"] is None:
        state["last"] = now
    if now < state["last"]:
        raise DecreasingTimestamp(state["last"], now)
    delay = PERL_CLASSES[name][call == "success"](options, state)
    if options.get("consider_actual_delay"):
        delay = delay + (state["previous"] or 0) - (now - state["last"])
    factor = options.get("jitter_factor", 0)
    if factor and delay:
        least, greatest = delay * (1 - factor), delay * (1 + factor)
        delay = least + (greatest - least) * next(draws)
    if options.get("max_delay") is not None:
        delay = min(delay, options["max_delay"])
    delay = max(delay, 0, options.get("min_delay", 0))
    state["last"], state["previous"] = now, delay
    return delay
