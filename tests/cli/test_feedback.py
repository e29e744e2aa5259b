"""``backoff-ticker feedback``: logs of failures and successes, and what policies answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from backoff_ticker import ConstantFeedbackBackOff
from backoff_ticker.cli._feedback_log import answers, parse_log
from backoff_ticker.policies import FrozenClock

from .calling import LIMD, call

CONSTANT = "constant-feedback --delay 2"


def told(capsys, line):
    said = call(capsys, f"feedback {line}")
    assert (said.status, said.err) == (0, "")
    assert said.out.endswith("\n")
    return said.out.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{LIMD} 0 0 0 1 1 1 0 0 0", "2 6 10 2 1 1 5 9 13"),
        (f"limd 0 0 0 1 1 1 0 0 0 {LIMD.removeprefix('limd')}", "2 6 10 2 1 1 5 9 13"),
        (
            (
                "lild --initial-delay 3 --delay-increment-on-failure 4 "
                "--delay-increment-on-success -5 --min-delay 1 0 0 0 1 1 1 1 0 0"
            ),
            "3 7 11 6 1 1 1 5 9",
        ),
        (
            (
                "mild --initial-delay 3 --delay-multiple-on-failure 2 "
                "--delay-increment-on-success=-2 --min-delay 1 0 0 0 1 1 1 1 1 1 1 1 0 0"
            ),
            "3 6 12 10 8 6 4 2 1 1 1 2 4",
        ),
        (
            (
                "mimd --initial-delay 3 --delay-multiple-on-failure 2 "
                "--delay-multiple-on-success .5 --min-delay 2 0 0 0 1 1 1 1 0 0"
            ),
            "3 6 12 6 3 2 2 4 8",
        ),
        (
            "fibonacci --initial-delay1 0 --initial-delay2 1 0 0 0 0 0 0 0 0 0 0 1",
            "0 1 1 2 3 5 8 13 21 34 0",
        ),
        (
            "exponential-feedback --initial-delay 1 --max-delay 200 0 0 0 0 0 0 0 0 0 1",
            "1 2 4 8 16 32 64 128 200 0",
        ),
        (f"{CONSTANT} --delay-on-success 1.5 0 1 0", "2 1.5 2"),
        (f"{CONSTANT} --max-attempts 2 0 0 1 0 0", "2 -1 0 2 -1"),
        (f"{CONSTANT} --max-delay none 0", "2"),
    ],
)
def test_the_logs_of_the_source(capsys, line, expected):
    assert told(capsys, line) == expected.split()


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        # alone: at the time of the item before
        ("0:100 0 0:102", "2 4 4"),
        # later than the item before
        ("0 0:+2 0:+4 1:+1", "2 2 0 0"),
        ("0:1554652553 0:+2 0:1554652559", "2 2 0"),
        ("0:1 0:1 0:6 0:8 0:11", "2 4 1 1 0"),
        ("0 0:+0.5 0:1.75", "2 3.5 4.25"),
        ("0 0:+2 0:2", "2 2 4"),
    ],
)
def test_the_time_of_an_item(capsys, log, expected):
    assert told(capsys, f"{CONSTANT} --consider-actual-delay {log}") == expected.split()


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("0 0:+2 0:+2", "2 2 -1"),
        ("0:0 0:2 0:4", "2 2 -1"),
        ("0:1554652553 0:+3 0:+1", "2 2 -1"),
        ("0:+4 1 0", "-1 0 -1"),
    ],
)
def test_a_log_starts_at_its_first_timestamp_or_at_0(capsys, log, expected):
    assert told(capsys, f"{CONSTANT} --max-actual-duration 4 {log}") == expected.split()


@pytest.mark.parametrize(
    ("options", "log", "expected"),
    [
        ("--max-elapsed-time 5", "0 0:+100 0:+100", "2 -1 -1"),
        ("--max-elapsed-time 5", "0:1554652553 0:+3 0:+1", "2 2 -1"),
        ("--max-elapsed-time 5", "0:+3 0:+1", "2 -1"),
        ("--max-elapsed-time 5", "0 1:+100 0", "2 0 -1"),
        ("--max-elapsed-time 0", "0 0:+100", "2 2"),
        ("--max-elapsed-time none", "0 0:+100", "2 2"),
        ("--max-elapsed-time 9 --max-interval 1", "0 0:8 0:8.5", "1 1 -1"),
        # what goes back stands still for a limit of elapsed time
        ("--max-elapsed-time 5 --max-attempts 2", "0 0:4 1:3 0:3", "2 -1 0 -1"),
        ("--max-elapsed-time 5 --max-attempts 2", "0 0:3 1:2 0:3", "2 -1 0 2"),
    ],
)
def test_limits_around_a_policy_go_by_the_times_of_the_log(capsys, options, log, expected):
    assert told(capsys, f"{CONSTANT} {options} {log}") == expected.split()


def test_other_limits_around_a_policy(capsys):
    assert told(capsys, f"{CONSTANT} --max-retries 2 0 0 0 1 0 0 0") == [
        "2",
        "2",
        "-1",
        "0",
        "2",
        "2",
        "-1",
    ]
    assert told(capsys, f"{LIMD} --max-interval 7 0 0 0 1") == ["2", "6", "7", "2"]


def test_a_jitter_around_a_policy(capsys):
    line = f"{CONSTANT} --delay-on-success 4 --jitter equal --seed 1 0 1"
    failed, succeeded = map(float, told(capsys, line))
    assert 1.0 <= failed < 2.0 <= succeeded < 4.0
    assert told(capsys, line) == [repr(failed), repr(succeeded)]


def test_a_timestamp_may_go_back_after_giving_up_as_in_the_source(capsys):
    assert told(capsys, f"{CONSTANT} --max-attempts 2 0:5 0:9 1:7") == ["2", "-1", "0"]


def test_numbers_are_as_short_as_they_are_exact(capsys):
    assert told(capsys, "constant-feedback --delay 2.50 0") == ["2.5"]
    assert told(capsys, "constant-feedback --delay 1e300 0") == ["1e+300"]
    assert told(capsys, "constant-feedback --delay .1 0") == ["0.1"]


def test_the_same_seed_draws_the_same(capsys):
    line = f"{CONSTANT} --jitter-factor 0.5 0 0 0"
    once, again, other = (told(capsys, f"{line} --seed {seed}") for seed in (1, 1, 2))
    assert once == again != other
    assert all(1 <= float(delay) <= 3 for delay in once)
    assert len({tuple(told(capsys, line)) for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (CONSTANT, "the log is empty: give a 0 for each failure, a 1 for each success"),
        *(
            (
                f"{CONSTANT} 0 {item} 1",
                (
                    "item 2 of the log must be 0 or 1, alone or with :TIMESTAMP or :+SECONDS, "
                    f"not {item!r}"
                ),
            )
            for item in ("2", "x", "01", "0:", "0:+", "0:-1", "0:x", "0:1e3", "0:nan", "0:+1:2")
        ),
        (
            f"{CONSTANT} 0 \u0660",
            "item 2 of the log must be 0 or 1, alone or with :TIMESTAMP or :+SECONDS, not '\u0660'",
        ),
        (
            f"{CONSTANT} 0 0:5 1:4",
            (
                "item 3 of the log, '1:4': timestamp must not be less than the one before (5.0), "
                "not 4.0"
            ),
        ),
        (f"{CONSTANT} 0 -1", "no such option: -1"),
        (
            "limd 0",
            (
                "limd needs --initial-delay, --delay-increment-on-failure and "
                "--delay-multiple-on-success"
            ),
        ),
        (f"{CONSTANT} --max-attempts 1.5 0", "'1.5' is not a whole number"),
        (f"{CONSTANT} --jitter-factor 1 0", "--jitter-factor must be >= 0 and < 1, not 1.0"),
        (f"{CONSTANT} --min-delay nan 0", "--min-delay must be a finite number of seconds >= 0"),
        ("exponential 0 1", "exponential takes no feedback (those that do: constant-feedback,"),
        ("limb 0 1", "no such policy: 'limb' (did you mean limd? there are constant-feedback,"),
        ("", "missing policy: constant-feedback, exponential-feedback, fibonacci, lild,"),
    ],
)
def test_bad_input_is_told_in_one_line(capsys, line, expected):
    assert expected in call(capsys, f"feedback {line}").complaint


def test_a_time_beyond_all_floats(capsys):
    said = call(capsys, f"feedback {CONSTANT} 0:{'9' * 400}")
    assert said.complaint.startswith("item 1 of the log is too late: '0:999")
    said = call(capsys, f"feedback {CONSTANT} 0:{'9' * 308} 0:+{'9' * 308} 0:+{'9' * 308}")
    assert said.complaint.startswith("item 2 of the log is too late: '0:+999")


def test_nothing_is_printed_before_all_of_the_log_is_good(capsys):
    assert call(capsys, f"feedback {CONSTANT} 0 0 0 0 2").out == ""


ITEMS = st.builds(
    "{}{}".format,
    st.sampled_from("01"),
    st.just("") | st.integers(0, 10**6).map(":+{}".format),
)


@given(st.lists(ITEMS, min_size=1))
def test_each_item_has_its_line(items):
    log, start = parse_log(items)
    clock = FrozenClock(start)
    policy = ConstantFeedbackBackOff(2, jitter_factor=0.5, clock=clock)
    lines = answers(policy, log, clock).splitlines()
    assert len(lines) == len(items)
    for item, line in zip(log, lines, strict=True):
        assert line == "0" if item.success else 1.0 <= float(line) <= 3.0
