"""The numbers of the sources, replayed: each vector of ``tests/vectors`` is one test."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any

import pytest

import backoff_ticker
from backoff_ticker import POLICIES, STOP, CancellationToken, Ticker, named_policy
from tests.helpers import SetClock
from tests.policies.policy_doubles import NoMore

FILES = sorted((Path(__file__).parent.parent / "vectors").glob("*.json"))
LOADED = [(path.stem, json.loads(path.read_text())) for path in FILES]
VECTORS = [
    pytest.param(
        vector, vector.get("unit", loaded.get("unit", 0.0)), id=f"{name}: {vector['name']}"
    )
    for name, loaded in LOADED
    for vector in loaded["vectors"]
]
ROUNDING = 1e-12
"""What the last digits may differ by, relative or in seconds."""


def truncation(unit: float, multiplier: float, call: int) -> float:
    """Return how far below the plain product truncation to whole units can bring an interval.

    Each advance loses less than one unit, and multiplies what was lost before; a cap only takes
    away from the difference. So before call 1 it is 0, and then ``e = multiplier * e + unit``.
    """
    lost = 0.0
    for _ in range(call - 1):
        lost = multiplier * lost + unit
    return lost


class Replay:
    """One policy that goes through the steps of a vector."""

    def __init__(self, vector: dict[str, Any], unit: float) -> None:
        options = {name: number(value) for name, value in vector["options"].items()}
        start = float(vector.get("start", 0))
        self.clock = SetClock(start, epoch=start)
        self.rng = NoMore(vector["draws"]) if "draws" in vector else None
        given = {"clock": self.clock, "rng": self.rng}
        known = inspect.signature(POLICIES[vector["policy"]]).parameters
        given = {name: value for name, value in given.items() if name in known}
        self.policy = self.inner = named_policy(vector["policy"], **options, **given)
        self.tokens = []
        for name, *arguments in vector.get("wrappers", ()):
            if name == "with_token":
                self.tokens.append(CancellationToken())
                arguments.append(self.tokens[-1])
            self.policy = getattr(backoff_ticker, name)(self.policy, *arguments)
        self.unit = unit
        self.calls = 0

    def step(self, call: str, argument: Any, expected: Any) -> None:
        if call == "clock":
            self.clock.now = float(argument)
        elif call == "cancel":
            self.tokens[argument].cancel()
        elif call == "reset":
            self.policy.reset()
            self.calls = 0
        elif call == "field":
            assert getattr(self.policy, argument) == expected
        elif call == "ticks":
            assert len(list(Ticker(self.policy))) == expected
        elif call == "bounds":
            self.compare_bounds(argument, expected)
        elif call == "interval":
            assert near(
                self.inner.current_interval, expected, self.apart(self.calls + 1, "interval")
            )
        elif expected == "error":
            self.refuse(call, argument)
        else:
            self.compare(self.ask(call, argument), expected)

    def ask(self, call: str, argument: Any) -> Any:
        if call == "next":
            return self.policy.next_backoff()
        return getattr(self.policy, call)(*([] if argument is None else [argument]))

    def refuse(self, call: str, timestamp: float) -> None:
        before = (self.policy.attempts, self.policy.last_delay)
        with pytest.raises(ValueError, match="^timestamp must"):
            self.ask(call, timestamp)
        assert (self.policy.attempts, self.policy.last_delay) == before

    def compare(self, delay: Any, expected: Any) -> None:
        if delay is not STOP or getattr(self.inner, "look_ahead", False):
            self.calls += 1
        apart = self.apart(self.calls)
        if expected == "stop":
            assert delay is STOP
        elif isinstance(expected, list):
            least, greatest = expected
            assert least - apart - ROUNDING <= delay <= greatest + apart + ROUNDING
        else:
            assert near(delay, expected, apart)

    def compare_bounds(self, n: int, expected: Any) -> None:
        bounds = self.policy.bounds(n)
        if expected is None:
            assert bounds is None
        else:
            assert near(bounds[0], expected[0], self.apart(n))
            assert near(bounds[1], expected[1], self.apart(n))

    def apart(self, call: int, what: str = "delay") -> float:
        """Return how far a source that counts whole units may be away at this call.

        A draw is short by what the interval is, at its ends times ``1 + factor``; it is over one
        unit more, which adds less than one, and its truncation takes away less than one.
        """
        if not (self.unit and hasattr(self.inner, "multiplier")):
            return self.unit
        short = truncation(self.unit, self.inner.multiplier, call)
        if what == "interval":
            return short
        return short * (1.0 + self.inner.randomization_factor) + self.unit


def number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf") else value


def near(value: Any, expected: float, apart: float) -> bool:
    return math.isclose(value, expected, rel_tol=ROUNDING, abs_tol=apart + ROUNDING)


@pytest.mark.parametrize(("vector", "unit"), VECTORS)
def test_a_vector_of_a_source(vector, unit):
    if "raises" in vector:
        with pytest.raises(ValueError) as caught:
            Replay(vector, unit)
        assert str(caught.value).startswith(vector["raises"])
        return
    replay = Replay(vector, unit)
    for step in vector["steps"]:
        replay.step(*step)
    assert not (replay.rng and replay.rng.left), "the source draws more often"


def test_no_source_is_without_vectors():
    assert {"aws", "cloud_storage", "go", "grpc", "java", "perl"} <= {name for name, _ in LOADED}
