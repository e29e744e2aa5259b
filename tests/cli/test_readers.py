"""What reads the values of options, one by one."""

from __future__ import annotations

import math
import re

import click
import pytest
from hypothesis import given, strategies as st

from backoff_ticker.cli._readers import (
    Kind,
    exit_codes,
    number,
    regex,
    seconds,
    whole_number,
    word_or_number,
)


def refusal(read, text):
    with pytest.raises(click.BadParameter) as caught:
        read(text)
    return caught.value.message


@given(st.floats(allow_nan=False))
def test_a_number_reads_as_python_writes_it(value):
    assert number(repr(value)) == value


def test_a_number_may_be_nan_or_infinite():
    assert math.isnan(number("nan"))
    assert number("-inf") == -math.inf
    assert number("1e999") == math.inf


@pytest.mark.parametrize("text", ["", "x", "1_0", "\u0661", "\uff11", "1,5", "none", "0x1"])
def test_what_is_no_number(text):
    assert refusal(number, text) == f"{text!r} is not a number"
    assert refusal(seconds, text) == f"{text!r} is not a number"


@pytest.mark.parametrize(
    ("text", "found"),
    [("full", "full"), ("none", "none"), ("0.5", 0.5), ("1", 1.0), ("inf", math.inf)],
)
def test_a_word_or_a_number(text, found):
    assert word_or_number(text) == found


@pytest.mark.parametrize("text", ["", "1_0", "full!", "half 1"])
def test_what_is_neither_a_word_nor_a_number(text):
    assert refusal(word_or_number, text) == f"{text!r} is not a number"


def test_nan_is_a_number_and_no_word():
    assert isinstance(word_or_number("nan"), float)


@pytest.mark.parametrize(
    ("least", "greatest", "good", "bad", "expected"),
    [
        (None, None, ["-5", "0", "7"], ["1.5", "x", "", "1_0", "\u0661"], "a whole number"),
        (1, None, ["1", "10000"], ["0", "-1", "x"], "a whole number >= 1"),
        (1, 10, ["1", "10"], ["0", "11", "x"], "a whole number from 1 to 10"),
    ],
)
def test_a_whole_number(least, greatest, good, bad, expected):
    read = whole_number(least, greatest)
    assert [read(text) for text in good] == [int(text) for text in good]
    assert [refusal(read, text) for text in bad] == [f"{text!r} is not {expected}" for text in bad]


def test_a_whole_number_of_more_digits_than_python_reads():
    assert refusal(whole_number(), "9" * 10_000).endswith("... is not a whole number")


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e999"])
def test_seconds_are_finite_and_more_than_0(text):
    assert refusal(seconds, text) == f"{text!r} is not a finite number of seconds > 0"
    assert seconds("1e-9") == 1e-9


@pytest.mark.parametrize(
    ("text", "found"), [("1", {1}), ("1,75", {1, 75}), (" 1, 255 ", {1, 255}), ("075", {75})]
)
def test_exit_codes(text, found):
    assert exit_codes(text) == found


@pytest.mark.parametrize("text", ["", "0", "1,", ",", "256", "1000", "-1", "x", "1 2", "\u0661"])
def test_what_are_no_exit_codes(text):
    assert refusal(exit_codes, text) == (
        f"{text!r} is not a list of exit codes, 1 to 255, as in 1,75"
    )


def test_a_regex():
    assert regex("^ok$") == re.compile("^ok$")
    assert refusal(regex, "(").startswith("'(' is not a regular expression: missing )")
    assert "is not a regular expression" in refusal(regex, "a{99999999999999999999}")


def test_the_word_none_is_a_value_where_there_need_be_none():
    assert Kind(number, "N", optional=True).value("none") is None
    assert Kind(number, "N", optional=True).value("0") == 0.0
    assert Kind(word_or_number, "N").value("none") == "none"
    assert refusal(Kind(number, "N").value, "none") == "'none' is not a number"
