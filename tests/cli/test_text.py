"""Numbers, lists and defaults as the command writes them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from backoff_ticker.cli._text import as_text, exact, listed, rounded


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (0.5, "0.5"),
        (2.53125, "2.531"),
        (0.0625, "0.062"),
        (10.0, "10"),
        (100.25, "100.25"),
        # three decimals from 0.01 on, four digits below
        (0.01, "0.01"),
        (0.01234, "0.012"),
        (0.0099999, "0.01"),
        (0.009876, "0.009876"),
        (0.00987654, "0.009877"),
        (1e-9, "1e-09"),
        # three decimals below 10,000,000, four digits from there on
        (1234567.8915, "1234567.891"),
        (9999999.0, "9999999"),
        (9999999.125, "9999999.125"),
        (10_000_000.0, "1e+07"),
        (12_345_678.0, "1.235e+07"),
        (1.7976931348623157e308, "1.798e+308"),
    ],
)
def test_a_number_for_people(number, text):
    assert rounded(number) == text


@given(st.floats(0.0, 1.797e308))
def test_a_number_for_people_is_near_and_short(number):
    text = rounded(number)
    assert abs(float(text) - number) <= max(0.000_500_1, number * 0.000_500_1)
    assert len(text) <= 12


@pytest.mark.parametrize(
    ("number", "text"),
    [(2.0, "2"), (0.1, "0.1"), (2.5, "2.5"), (1e16, "1e+16"), (0.0, "0"), (10.0, "10")],
)
def test_an_exact_number(number, text):
    assert exact(number) == text


@given(st.floats(allow_nan=False))
def test_an_exact_number_reads_back_as_the_same(number):
    assert float(exact(number)) == number


def test_a_list():
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(iter(["a", "b"])) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), (0, "0"), (12, "12"), (64.0, "64"), (0.5, "0.5")]
)
def test_a_default(value, text):
    assert as_text(value) == text
