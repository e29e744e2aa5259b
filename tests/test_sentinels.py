"""STOP: one object, whatever is done to it, and no number."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest

from backoff_ticker import STOP, Stop
from backoff_ticker.policies import checked_delay


def test_there_is_one():
    assert Stop() is STOP
    assert type(STOP) is Stop


def test_copies_are_the_same_object():
    assert copy.copy(STOP) is STOP
    assert copy.deepcopy(STOP) is STOP
    assert copy.deepcopy([STOP, {"a": STOP}]) == [STOP, {"a": STOP}]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_survives_every_pickle_protocol(protocol):
    assert pickle.loads(pickle.dumps(STOP, protocol)) is STOP
    assert pickle.loads(pickle.dumps(Stop, protocol)) is Stop


@pytest.mark.parametrize(
    "number",
    [-1, 0, 1, -1.0, 0.0, math.inf, -math.inf, math.nan, True, False, 1j, Decimal(-1), Fraction(0)],
)
def test_it_is_never_equal_to_a_number(number):
    assert STOP.__eq__(number) is NotImplemented
    assert (number == STOP) is False
    assert (number != STOP) is True


@pytest.mark.parametrize("other", [None, "STOP", "", Stop, object(), ...])
def test_it_is_equal_to_nothing_else(other):
    assert (other == STOP) is False


def test_it_is_equal_to_itself_and_can_be_a_key():
    assert STOP == STOP
    assert {STOP: 1}[Stop()] == 1


@pytest.mark.parametrize(
    "compute",
    [
        float,
        int,
        operator.index,
        operator.neg,
        lambda stop: stop + 1,
        lambda stop: 1.0 * stop,
        lambda stop: stop < 1,
        lambda stop: max(1.0, stop),
    ],
)
def test_nothing_can_be_computed_with_it(compute):
    with pytest.raises(TypeError):
        compute(STOP)


def test_it_is_no_delay():
    with pytest.raises(TypeError):
        checked_delay("policy", STOP)


def test_it_prints_its_name():
    assert repr(STOP) == "STOP"
    assert str(STOP) == "STOP"
    assert f"{STOP}" == "STOP"


def test_it_has_no_attributes_and_no_subclasses():
    with pytest.raises(AttributeError):
        STOP.attribute = 1
    with pytest.raises(TypeError):
        type("Other", (Stop,), {})
    with pytest.raises(TypeError):
        Stop(1)
