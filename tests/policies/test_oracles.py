"""The oracles are right: they give, to the last digit, what the sources' own code printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backoff_ticker import ExponentialBackOff
from tests.policies import oracles
from tests.policies.oracles import STOPPED, DecreasingTimestamp

VECTORS = Path(__file__).parent.parent / "vectors"
CLASSES = {
    "constant-feedback": "Constant",
    "exponential-feedback": "Exponential",
    "fibonacci": "Fibonacci",
    **{name.lower(): name for name in ("LILD", "LIMD", "MILD", "MIMD")},
}


def loaded(name):
    vectors = json.loads((VECTORS / f"{name}.json").read_text())["vectors"]
    return [v for v in vectors if "differs" not in v and "worked out" not in v["from"]]


def test_the_perl_oracle_gives_what_the_perl_classes_gave():
    compared = 0
    for vector in loaded("perl"):
        now = start = vector.get("start", 0)
        state = oracles.perl_state(start)
        draws = iter(vector.get("draws", ()))
        for call, argument, expected in vector["steps"]:
            if call == "clock":
                now = argument
                continue
            if isinstance(expected, list):
                break
            name, moment = CLASSES[vector["policy"]], now if argument is None else argument
            try:
                given = oracles.perl_call(name, vector["options"], state, call, moment, draws)
            except DecreasingTimestamp:
                given = "error"
            assert given == (STOPPED if expected == "stop" else expected), vector["name"]
            compared += 1
    assert compared > 1500


@pytest.mark.parametrize(
    ("source", "per_second", "at_least"), [("java", 1000, 600), ("go", 10**9, 20)]
)
def test_the_oracles_of_whole_units_give_what_the_sources_gave(source, per_second, at_least):
    call_source = getattr(oracles, f"{source}_call")
    compared = 0
    for vector in loaded(source):
        if vector["policy"] != "exponential" or "steps" not in vector or "wrappers" in vector:
            continue
        options = whole(vector["options"], per_second)
        now = start = round(vector.get("start", 0) * 10**9)
        state = {"interval": options["initial"], "start": start}
        draws = iter(vector.get("draws", [0.0] * 50))
        for call, argument, expected in vector["steps"]:
            if call == "clock":
                now = round(argument * 10**9)
            elif call == "interval":
                assert state["interval"] == round(expected * per_second), vector["name"]
            elif isinstance(expected, list):
                break
            else:
                given = call_source(options, state, call, now, draws)
                units = None if expected is None else STOPPED
                if isinstance(expected, (int, float)):
                    units = round(expected * per_second)
                assert given == units, vector["name"]
                compared += 1
    assert compared >= at_least


def whole(options, per_second):
    """Return the options of a vector, and the defaults, as the whole units of its source."""
    defaults = ExponentialBackOff()

    def value(name):
        return options.get(name, getattr(defaults, name))

    return {
        "initial": round(value("initial_interval") * per_second),
        "factor": value("randomization_factor"),
        "multiplier": value("multiplier"),
        "maximum": round(value("max_interval") * per_second),
        "elapsed": round(value("max_elapsed_time") * per_second),
    }
