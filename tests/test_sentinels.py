"""STOP and CLOSED: one object each, whatever is done to it, and not a number."""

import copy
import math
import pickle
import types
from decimal import Decimal
from fractions import Fraction

import pytest

from backoff_ticker import CLOSED, STOP, Closed, Stop


@pytest.mark.parametrize(("kind", "only"), [(Stop, STOP), (Closed, CLOSED)])
def test_there_is_one_whatever_copies_it_and_it_prints_its_name(kind, only):
    assert type(only) is kind
    assert list(kind) == [only]
    assert copy.copy(only) is only
    assert copy.deepcopy([only]) == [only]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(only, protocol)) is only
        assert pickle.loads(pickle.dumps(kind, protocol)) is kind
    with pytest.raises(TypeError):
        types.new_class("Other", (kind,))
    name = kind.__name__.upper()
    assert (repr(only), str(only), f"{only}") == (name, name, name)


@pytest.mark.parametrize(
    "other",
    [-1, 0, 1.0, math.inf, math.nan, True, 1j, Decimal(-1), Fraction(0), None, "STOP", Stop],
)
def test_it_is_equal_to_itself_alone_and_can_be_a_key(other):
    assert STOP.__eq__(other) is NotImplemented
    assert (other == STOP) is False
    assert {STOP: 1, other: 2}[STOP] == 1
