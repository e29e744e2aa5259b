"""Random runs against the rules of the sources, with the same draws.

Where a source counts seconds as floats (Perl) both agree up to the rounding of the last digits.
Where it counts whole units (Java: milliseconds, Go: nanoseconds) they are apart by what truncation
can lose. An interval loses less than one unit with each advance, and multiplies what was lost
before; nothing while the multiplier is whole, and nothing is left once it has reached its maximum.
A delay is drawn over one unit more and truncated, so it is less than one unit further away. Where
nothing is lost and nothing is drawn both agree exactly.
"""

from __future__ import annotations

import math
import random

import pytest

import backoff_ticker
from backoff_ticker import STOP, ExponentialBackOff
from tests.effort import rounds
from tests.helpers import SetClock
from tests.policies import oracles
from tests.policies.oracles import STOPPED, DecreasingTimestamp
from tests.policies.random_doubles import InTurn

LAST_DIGITS = 1e-12
LOGS = rounds(150, 1000)
CONFIGURATIONS = rounds(300, 3000)

CLASSES = {
    "Constant": "ConstantFeedbackBackOff",
    "Exponential": "ExponentialFeedbackBackOff",
    "Fibonacci": "FibonacciBackOff",
    "LILD": "LILDBackOff",
    "LIMD": "LIMDBackOff",
    "MILD": "MILDBackOff",
    "MIMD": "MIMDBackOff",
}


def some_draws(rng):
    edges = [0.0, 0.25, 0.5, 0.75, 0.999]
    return [rng.choice([*edges, rng.random(), rng.random()]) for _ in range(37)]


# Perl


def some_options(rng, name):
    some = lambda: rng.choice([0, 1, 2, 5, 0.5, 0.1, rng.uniform(0, 10), rng.uniform(0, 100)])
    possible = {
        "consider_actual_delay": True,
        "max_actual_duration": rng.choice([0, 5, 20, rng.uniform(0, 100)]),
        "max_attempts": rng.randrange(8),
        "jitter_factor": rng.choice([0, 0.1, 0.5, rng.uniform(0, 0.99)]),
        "min_delay": some(),
        "max_delay": some(),
    }
    options = {name: value for name, value in possible.items() if rng.random() < 0.35}
    if name in ("Constant", "Exponential", "Fibonacci") and rng.random() < 0.6:
        options["delay_on_success"] = some()
    if name == "Constant":
        options["delay"] = some()
    elif name == "Fibonacci":
        options |= {"initial_delay1": some(), "initial_delay2": some()}
    else:
        options["initial_delay"] = some()
    if name == "Exponential" and rng.random() < 0.7:
        options["exponent_base"] = rng.choice([0, 0.5, 1, 1.5, 3, rng.uniform(0, 4)])
    for place, outcome in ((0, "failure"), (2, "success")):
        if name.endswith("D") and name[place] == "L":
            options[f"delay_increment_on_{outcome}"] = rng.choice([some(), -some()])
        elif name.endswith("D"):
            options[f"delay_multiple_on_{outcome}"] = rng.choice([0, 0.5, 1, 2, rng.uniform(0, 4)])
    return options


@pytest.mark.parametrize("name", CLASSES)
def test_random_logs_give_what_the_perl_class_gives(name):
    rng = random.Random(f"logs of {name}")
    refused = stopped = 0
    for _ in range(LOGS):
        options, numbers = some_options(rng, name), some_draws(rng)
        now = start = rng.choice([0.0, 1000.0, 1.7e9])
        clock = SetClock(start, epoch=start)
        ours, theirs = InTurn(numbers), InTurn(numbers)
        policy = getattr(backoff_ticker, CLASSES[name])(**options, clock=clock, rng=ours)
        state = oracles.perl_state(start)
        for _ in range(rng.randrange(5, 60)):
            now += rng.choice([0, 0, 1, 2, rng.uniform(0, 10)])
            moment = now - rng.choice([0] * 20 + [1, 5])
            call = rng.choice(["failure", "failure", "success"])
            clock.now = moment
            given = getattr(policy, call)
            arguments = rng.choice([(), (moment,)])
            before = dict(state)
            try:
                expected = oracles.perl_call(name, options, state, call, moment, theirs)
            except DecreasingTimestamp:
                state, refused = before, refused + 1
                with pytest.raises(ValueError):
                    given(*arguments)
                continue
            delay = given(*arguments)
            stopped += expected == STOPPED
            if expected == STOPPED or delay is STOP:
                assert (expected, delay) == (STOPPED, STOP), options
            else:
                assert math.isclose(delay, expected, rel_tol=LAST_DIGITS, abs_tol=1e-9), options
            assert (ours.draws, policy.attempts) == (theirs.draws, state["attempts"])
            if expected > 1e15:
                break
    assert refused > LOGS / 4
    assert stopped > LOGS / 2


# Java and Go


class Pair:
    """The package and a source that counts whole units, asked the same at the same times."""

    def __init__(self, rng, source, options, per_second):
        numbers = some_draws(rng)
        self.ours, self.theirs = InTurn(numbers), InTurn(numbers)
        self.clock = SetClock(0.0, epoch=0.0)
        self.policy = ExponentialBackOff(
            options["initial"] / per_second,
            options["factor"],
            options["multiplier"],
            options["maximum"] / per_second,
            options["elapsed"] / per_second,
            look_ahead=source == "go",
            rng=self.ours,
            clock=self.clock,
        )
        self.options, self.per_second = options, per_second
        self.call_source = getattr(oracles, f"{source}_call")
        self.state = {}
        self.reset(0)

    def reset(self, now):
        self.policy.reset()
        self.call_source(self.options, self.state, "reset", now, self.theirs)
        self.lost = 0.0

    def next(self, now):
        """Compare one call; return what the source returned and how far both may be apart."""
        options, state, factor = self.options, self.state, self.options["factor"]
        expected = self.call_source(options, state, "next", now, self.theirs)
        delay = self.policy.next_backoff()
        apart = self.lost * (1.0 + factor) + (1.0 if factor else 0.0)
        if not (self.policy.look_ahead and apart and self.is_close(now, apart)):
            assert (expected == STOPPED) == (delay is STOP), options
        if expected != STOPPED and delay is not STOP:
            assert near(delay * self.per_second, expected, apart), options
        if expected != STOPPED or self.policy.look_ahead:
            new = 0.0 if options["multiplier"].is_integer() else 1.0
            self.lost = options["multiplier"] * self.lost + new
        if state["interval"] == options["maximum"]:
            self.lost = 0.0
        assert near(self.policy.current_interval * self.per_second, state["interval"], self.lost)
        assert not factor or self.ours.draws == self.theirs.draws
        return expected, apart

    def is_close(self, now, apart):
        """Whether elapsed time and delay are so close to the limit that either may stop."""
        until = now - self.state["start"] + self.state["drawn"]
        return near(until, self.options["elapsed"], apart)


def near(value, expected, apart):
    return math.isclose(value, expected, rel_tol=LAST_DIGITS, abs_tol=apart * (1 + 1e-9))


def some_configuration(rng, per_second, grain):
    """Options in whole units; the limit of time is a multiple of ``grain``."""
    initial = rng.choice([grain * rng.randrange(1, 40), rng.randrange(1, 5 * per_second)])
    return {
        "initial": initial,
        "factor": rng.choice([0.0, 0.0, 0.1, 0.5, 0.999, rng.random()]),
        "multiplier": rng.choice([1.0, 2.0, 3.0, 1.1, 1.5, rng.uniform(1, 5)]),
        "maximum": initial * rng.choice([1, 4, 50, 400]),
        "elapsed": grain * rng.choice([1, 8, 80, rng.randrange(1, 10**4)]),
    }


@pytest.mark.parametrize(
    ("source", "per_second", "grains_per_second"), [("java", 10**3, 8), ("go", 10**9, 512)]
)
def test_random_configurations_give_what_the_source_gives(source, per_second, grains_per_second):
    """All times are multiples of a grain: a whole number of units, and exact as a float."""
    rng = random.Random(f"configurations of {source}")
    exact = stopped = 0
    for _ in range(CONFIGURATIONS):
        options = some_configuration(rng, per_second, per_second // grains_per_second)
        pair = Pair(rng, source, options, per_second)
        grains = 0
        for _ in range(rng.randrange(5, 40)):
            grains += rng.choice([0, 0, 1, rng.randrange(20), rng.randrange(200)])
            pair.clock.now = grains / grains_per_second
            now = grains * 10**9 // grains_per_second
            if rng.random() < 0.05:
                pair.reset(now)
            expected, apart = pair.next(now)
            exact += apart == 0.0
            stopped += expected == STOPPED
    assert exact > CONFIGURATIONS
    assert stopped > CONFIGURATIONS
