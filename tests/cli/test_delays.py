"""``backoff-ticker delays``: the table, its picture, JSON, CSV, the diagram."""

from __future__ import annotations

import csv
import io
import json
import re
import sys

import pytest
from rich.console import Console

from backoff_ticker import ExponentialBackOff, StopBackOff, ZeroBackOff
from backoff_ticker.cli._delays import as_table, delays_of
from backoff_ticker.cli._still_clock import StillClock
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


def test_ten_thousand_delays(capsys):
    assert len(as_data(capsys, "zero -n 10000")) == 10000


def test_nobody_can_wait_on_the_clock_of_a_table():
    clock = StillClock(5.0)
    assert (clock.monotonic(), clock.time()) == (5.0, 5.0)
    with pytest.raises(NotImplementedError):
        clock.parker()
    with pytest.raises(NotImplementedError):
        clock.call_at(6.0, print)


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


# The terminal


def table(width, *, delays=None, color="standard", encoding="utf-8", **options):
    console = Console(
        file=io.TextIOWrapper(io.BytesIO(), encoding=encoding),
        force_terminal=True,
        width=width,
        color_system=color,
        legacy_windows=False,
        _environ={},
        **options,
    )
    clock = StillClock()
    policy = ExponentialBackOff(randomization_factor=0, clock=clock)
    found = delays_of(policy, 12, clock) if delays is None else delays
    return as_table(found, len(found), console)


def test_the_picture_takes_the_room_there_is_and_no_line_is_cut():
    wide, narrow, none = (table(width, color=None) for width in (200, 80, 50))
    for text in (wide, narrow, none):
        assert text.splitlines()[12].split()[:6] == [
            *("12", "43.249", "[43.249,", "43.249]", "43.249", "128.746")
        ]
    assert "█" * 31 + "┃" in wide
    assert max(map(len, narrow.splitlines())) <= 80
    assert "█" in narrow
    assert "█" not in none


def test_colours_are_there_on_a_terminal_only_and_not_with_no_color():
    assert "\x1b[" in table(80)
    assert "\x1b[3" not in table(80, no_color=True)
    assert "\x1b[" not in table(80, color=None)


def test_a_terminal_without_blocks_gets_ascii():
    text = table(80, encoding="ascii", color=None)
    assert text.isascii()
    assert "= least  | drawn  - greatest" in text


def test_delays_of_no_length_have_no_picture():
    clock = StillClock()
    text = table(80, delays=delays_of(ZeroBackOff(), 2, clock), color=None)
    assert len(text.splitlines()) == 3
    assert "least  " not in text
    assert delays_of(StopBackOff(), 2, clock) == []


def test_a_bar_is_filled_to_the_least_and_has_its_mark_at_the_drawn():
    class Policy:
        def bounds(self, n):
            return [(10.0, 20.0), (0.0, 32.0), (0.0, 1e-9)][n - 1]

        def next_backoff(self):
            self.asked += 1
            return [10.0, 32.0, 0.0][self.asked - 1]

        def reset(self):
            self.asked = 0

    lines = table(80, delays=delays_of(Policy(), 3, StillClock()), color=None).splitlines()
    bars = [line.split("  ")[-1] for line in lines[1:4]]
    width = max(map(len, bars))
    assert bars[1] == "░" * (width - 1) + "┃"
    filled, rest = bars[0].split("┃")
    assert filled == "█" * int(10 / 32 * width)
    assert set(rest) == {"░"}
    assert bars[2] == "┃"


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


# The diagram


def test_plot_writes_a_file_beside_the_table(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    for ending, first in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        path = tmp_path / f"delays.{ending}"
        said = call(capsys, "delays exponential --seed 1 --plot", str(path))
        assert (said.status, said.err) == (0, "")
        assert said.out == call(capsys, "delays exponential --seed 1").out
        assert path.read_bytes().startswith(first)


def test_plot_of_few_or_no_delays_and_none_too_great(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    path = str(tmp_path / "delays.png")
    for line in ("stop", "zero", "constant --interval 2 -n 1", "constant --interval 1e100"):
        said = call(capsys, f"delays {line} --plot", path)
        assert (said.status, said.err) == (0, "")
    said = call(capsys, "delays constant --interval 1e101 --plot", path)
    assert said.complaint == "--plot: delays of more than 1e+100 s cannot be drawn"


def test_plot_complains_of_the_file(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    said = call(capsys, "delays go --plot", str(tmp_path / "nowhere" / "x.png"))
    assert "nowhere/x.png': No such file or directory" in said.complaint
    for name in ("", "x", "x.foo", "png"):
        said = call(capsys, "delays go --plot", name)
        assert said.complaint.startswith(f"--plot: {name!r} must end in one of .")
    (tmp_path / "folder.png").mkdir()
    said = call(capsys, "delays go --plot", str(tmp_path / "folder.png"))
    assert "folder.png': Is a directory" in said.complaint
    said = call(capsys, "delays go --plot")
    assert said.complaint == "option '--plot' requires an argument"


def test_plot_without_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = call(capsys, "delays go --plot x.png")
    assert said.complaint == "--plot needs more packages: pip install 'backoff-ticker[plot]'"


# Limits around any policy


def delays_said(capsys, line):
    return [one["drawn"] for one in json.loads(call(capsys, f"delays {line} --json").out)["delays"]]


def test_any_policy_can_be_limited(capsys):
    fixed = "limd --initial-delay 2 --delay-increment-on-failure 4 --delay-multiple-on-success 0"
    assert delays_said(capsys, f"{fixed} -n 4 --max-interval 7") == [2.0, 6.0, 7.0, 7.0]
    assert delays_said(capsys, f"{fixed} --max-elapsed-time 8") == [2.0, 6.0]
    assert delays_said(capsys, f"{fixed} --max-retries 3") == [2.0, 6.0, 10.0]
    assert delays_said(capsys, f"{fixed} --max-interval 4 --max-elapsed-time 10") == [2.0, 4.0, 4.0]
    assert len(delays_said(capsys, "grpc --max-elapsed-time 3")) == 2


def test_a_limit_that_a_policy_has_itself_is_its_own(capsys):
    plain = "exponential --randomization-factor 0 --multiplier 2"
    assert delays_said(capsys, f"{plain} -n 4 --max-interval 1.5") == [0.5, 1.0, 1.5, 1.5]
    assert len(delays_said(capsys, f"{plain} --max-elapsed-time none -n 100")) == 100


def test_a_limit_shows_the_interval_of_the_policy_inside(capsys):
    said = json.loads(call(capsys, "delays exponential --max-retries 2 --json").out)["delays"]
    assert [one["interval"] for one in said] == [0.5, 0.75]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--max-retries -1", "--max-retries must be an int >= 0, not -1"),
        ("--max-interval nan", "--max-interval must be a finite number of seconds >= 0, not nan"),
        ("--max-elapsed-time -1", "--max-elapsed-time must be a finite number of seconds >= 0"),
    ],
)
def test_a_bad_limit_is_told_by_its_option(capsys, options, complaint):
    assert complaint in call(capsys, f"delays zero {options}").complaint


@pytest.mark.parametrize("columns", [1, 20, 40, 60, 80])
@pytest.mark.parametrize("terminal", [True, False])
def test_no_column_is_left_out_however_narrow_the_console_is(columns, terminal):
    policy = ExponentialBackOff(randomization_factor=0)
    console = Console(width=columns, force_terminal=terminal, no_color=True, highlight=False)
    text = as_table(delays_of(policy, 2, StillClock()), 2, console)
    lines = re.sub("\x1b\\[[0-9;]*m", "", text).splitlines()
    assert lines[0].split() == ["retry", "interval", "[least,", "greatest]", "drawn", "total"]
    assert lines[2].split()[:6] == ["2", "0.75", "[0.75,", "0.75]", "0.75", "1.25"]
    assert console.width == columns


@pytest.mark.parametrize("text", ["1_0", "\u0661", "\uff11"])
def test_numbers_are_those_that_people_write(capsys, text):
    assert "is not a number" in call(capsys, f"delays constant --interval {text}").complaint
    assert "is not a whole number" in call(capsys, f"delays zero -n {text}").complaint
