"""``backoff-ticker delays``: the table, its picture, JSON, CSV, the diagram."""

from __future__ import annotations

import csv
import io
import json
import sys
from contextlib import contextmanager

import pytest

from backoff_ticker.policies._named import POLICIES

from .calling import call, environment, finish, start

GIVEN = {
    "constant": "--interval 2",
    "full-jitter": "--base 1 --cap 20",
    "equal-jitter": "--base 1 --cap 20",
    "decorrelated-jitter": "--base 1 --cap 20",
    "constant-feedback": "--delay 2",
    "exponential-feedback": "--initial-delay 2",
    "fibonacci": "--initial-delay1 1 --initial-delay2 2",
    "lild": "--initial-delay 3 --delay-increment-on-failure 4 --delay-increment-on-success -5",
    "limd": "--initial-delay 2 --delay-increment-on-failure 4 --delay-multiple-on-success 0.2",
    "mild": "--initial-delay 3 --delay-multiple-on-failure 2 --delay-increment-on-success -2",
    "mimd": "--initial-delay 3 --delay-multiple-on-failure 2 --delay-multiple-on-success 0.5",
}
SOURCE = "exponential --initial-interval 0.5 --multiplier 1.5 --randomization-factor 0.5 -n 10"

THE_SOURCES_TABLE = [
    ("0.5", "[0.25, 0.75]"),
    ("0.75", "[0.375, 1.125]"),
    ("1.125", "[0.562, 1.688]"),
    ("1.688", "[0.844, 2.531]"),
    ("2.531", "[1.266, 3.797]"),
    ("3.797", "[1.898, 5.695]"),
    ("5.695", "[2.848, 8.543]"),
    ("8.543", "[4.271, 12.814]"),
    ("12.814", "[6.407, 19.222]"),
    ("19.222", "[9.611, 28.833]"),
]


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Nothing around the test decides about colours."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def as_data(capsys, line):
    said = call(capsys, f"delays {line} --json")
    assert (said.status, said.err) == (0, "")
    return json.loads(said.out)["delays"]


# The table


def test_the_table_of_the_sources(capsys):
    said = call(capsys, f"delays {SOURCE}")
    assert (said.status, said.err) == (0, "")
    title, *rows = said.out.splitlines()
    assert title.split() == ["retry", "interval", "[least,", "greatest]", "drawn", "total"]
    for number, (row, (interval, span)) in enumerate(
        zip(rows[:10], THE_SOURCES_TABLE, strict=True), 1
    ):
        assert row.split()[:4] == [str(number), interval, *span.split()]
    assert rows[10:] == ["█ least  ┃ drawn  ░ greatest"]


def test_the_same_seed_draws_the_same_and_none_draws_others(capsys):
    once, again, other = (
        call(capsys, f"delays exponential --seed {seed}").out for seed in (1, 1, 2)
    )
    assert once == again != other
    assert len({call(capsys, "delays exponential --json").out for _ in range(5)}) == 5


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_table_within_its_bounds(capsys, name):
    line = f"{name} {GIVEN.get(name, '')} --seed 3"
    said = call(capsys, f"delays {line}")
    assert (said.status, said.err) == (0, "")
    found = as_data(capsys, line)
    assert len(found) == {"stop": 0, "aws": 2}.get(name, 12)
    total = 0.0
    for number, row in enumerate(found, 1):
        total += row["drawn"]
        assert row["retry"] == number
        assert row["least"] <= row["drawn"] <= row["greatest"]
        assert row["least"] <= row["interval"] <= row["greatest"]
        assert row["total"] == total


def test_the_table_says_where_the_policy_stops(capsys):
    said = call(capsys, "delays aws -n 3")
    assert said.out.splitlines()[3:4] == ["STOP: the policy gives up, there is no retry 3."]
    assert "STOP" not in call(capsys, "delays aws -n 2").out
    said = call(capsys, "delays stop")
    assert said.out.splitlines()[1:] == ["STOP: the policy gives up, there is no retry 1."]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ("--max-elapsed-time 900", 90),  # waiting 900 s passes no limit of 900 s
        ("--max-elapsed-time 899", 89),
        ("--max-elapsed-time 899 --no-look-ahead", 90),
        ("--max-elapsed-time 0", 100),
        ("--max-elapsed-time none", 100),
    ],
)
def test_elapsed_time_counts_as_if_each_delay_had_been_waited(capsys, options, count):
    steady = "--initial-interval 10 --multiplier 1 --randomization-factor 0 -n 100"
    assert len(as_data(capsys, f"exponential {steady} {options}")) == count


def test_feedback_policies_wait_in_the_same_way(capsys):
    limited = as_data(capsys, "constant-feedback --delay 2 --max-actual-duration 7")
    assert [row["total"] for row in limited] == [2.0, 4.0, 6.0, 8.0]
    actual = as_data(capsys, "constant-feedback --delay 2 --consider-actual-delay -n 3")
    assert [row["drawn"] for row in actual] == [2.0, 2.0, 2.0]


def test_the_interval_is_the_middle_where_the_policy_has_none(capsys):
    assert as_data(capsys, "full-jitter --base 1 --cap 20 -n 2")[1]["interval"] == 1.0
    assert as_data(capsys, "constant --interval 0.1 -n 1")[0]["interval"] == 0.1


def test_delays_beyond_all_floats_saturate(capsys):
    rows = as_data(capsys, "constant --interval 1.7e308 -n 3")
    assert [row["total"] for row in rows] == [1.7e308, sys.float_info.max, sys.float_info.max]
    assert call(capsys, "delays constant --interval 1.7e308 -n 3").status == 0


@pytest.mark.parametrize(
    "line",
    [
        "zero",
        "go --max-elapsed-time none",
        "decorrelated-jitter --base 1 --cap none",
        "fibonacci --initial-delay1 1 --initial-delay2 2 --consider-actual-delay",
        f"limd {GIVEN['limd']}",
        f"limd {GIVEN['limd']} --consider-actual-delay --jitter-factor 0.1 --max-interval 1e4",
        f"mild {GIVEN['mild']} --jitter 0.5 --max-retries 10000",
        f"mimd {GIVEN['mimd']} --jitter-factor 0.1",
        f"mimd {GIVEN['mimd']} --max-delay 1e9 --max-jitter 5",
    ],
)
def test_ten_thousand_delays_cost_about_ten_times_what_a_thousand_cost(capsys, line):
    counts = {}
    for count in (1000, 10_000):
        with counted_calls() as calls:
            rows = as_data(capsys, f"{line} -n {count} --seed 1")
        counts[count] = calls[0]
        assert len(rows) == count
        assert all(row["least"] <= row["drawn"] <= row["greatest"] for row in rows)
    assert counts[10_000] < 12 * counts[1000]


@contextmanager
def counted_calls():
    """Count the calls of functions of the package."""
    calls = [0]

    def profile(frame, event, argument):
        calls[0] += event == "call" and "backoff_ticker" in frame.f_code.co_filename

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


# JSON and CSV


def test_json_has_exactly_this_form(capsys):
    said = call(capsys, "delays constant --interval 0.5 -n 2 --json")
    assert said.out == (
        '{"policy": "constant", "delays": ['
        '{"retry": 1, "interval": 0.5, "least": 0.5, "greatest": 0.5, "drawn": 0.5, "total": 0.5}, '
        '{"retry": 2, "interval": 0.5, "least": 0.5, "greatest": 0.5, "drawn": 0.5, "total": 1.0}'
        "]}\n"
    )
    assert call(capsys, "delays stop --json").out == '{"policy": "stop", "delays": []}\n'


def test_csv_has_the_same_columns(capsys):
    said = call(capsys, "delays exponential -n 5 --seed 1 --csv")
    assert "\r" not in said.out
    rows = list(csv.DictReader(io.StringIO(said.out)))
    expected = as_data(capsys, "exponential -n 5 --seed 1")
    assert [{name: float(value) for name, value in row.items()} for row in rows] == expected


# What is printed where


def test_piped_output_is_plain_and_whole():
    said = finish(start("delays", *SOURCE.split()))
    assert (said.status, said.err) == (0, "")
    assert "\x1b" not in said.out
    assert "[9.611, 28.833]" in said.out
    assert "█" in said.out
    ascii_only = environment(PYTHONIOENCODING="ascii")
    said = finish(start("delays", "go", env=ascii_only))
    assert (said.status, said.err) == (0, "")
    assert said.out.isascii()


@pytest.mark.parametrize("text", ["1_0", "\u0661", "\uff11"])
def test_numbers_are_those_that_people_write(capsys, text):
    assert "is not a number" in call(capsys, f"delays constant --interval {text}").complaint
    assert "is not a whole number" in call(capsys, f"delays zero -n {text}").complaint
