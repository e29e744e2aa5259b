"""Random logs against the rules of Perl's Algorithm::Backoff, with the same draws.

Both count seconds as floats, and agree up to the rounding of the last digits. The rules written
down in ``oracles`` are right: they give, to the last digit, what the code of the source printed.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

import backoff_ticker
from backoff_ticker import STOP
from tests.effort import rounds
from tests.helpers import SetClock
from tests.policies import oracles
from tests.policies.oracles import STOPPED, DecreasingTimestamp
from tests.policies.random_doubles import InTurn

LAST_DIGITS = 1e-12
LOGS = rounds(150, 1000)
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


VECTORS = Path(__file__).parent.parent / "vectors" / "perl.json"
NAMES = {
    "constant-feedback": "Constant",
    "exponential-feedback": "Exponential",
    "fibonacci": "Fibonacci",
    **{name.lower(): name for name in ("LILD", "LIMD", "MILD", "MIMD")},
}


def test_the_perl_oracle_gives_what_the_perl_classes_gave():
    compared = 0
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        if "differs" in vector or "worked out" in vector["from"]:
            continue
        now = start = vector.get("start", 0)
        state = oracles.perl_state(start)
        draws = iter(vector.get("draws", ()))
        for call, argument, expected in vector["steps"]:
            if call == "clock":
                now = argument
                continue
            if isinstance(expected, list):
                break
            name, moment = NAMES[vector["policy"]], now if argument is None else argument
            try:
                given = oracles.perl_call(name, vector["options"], state, call, moment, draws)
            except DecreasingTimestamp:
                given = "error"
            assert given == (STOPPED if expected == "stop" else expected), vector["name"]
            compared += 1
    assert compared > 1500
