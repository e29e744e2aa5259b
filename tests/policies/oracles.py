"""The rules of Perl's Algorithm::Backoff, written down from its text and not from the package.

``perl_call`` does one call on a state, a dict, and returns what the source returns: -1 where it
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
"""What it returns to say that there is no next attempt."""


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
