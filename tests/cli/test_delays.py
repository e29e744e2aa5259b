"""``backoff-ticker delays``: the table, its bar chart, JSON, CSV, lines."""

import csv
import io

import pytest

from backoff_ticker import POLICIES
from tests.policies.policy_strategies import needed

from .calling import call, data_of, environment, finish, on_console, start


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_draws_within_its_bounds(name):
    options = "".join(f" --{key.replace('_', '-')} {value}" for key, value in needed(name).items())
    found = data_of(f"delays {name}{options} --seed 3")["delays"]
    assert len(found) == {"stop": 0, "aws": 2}.get(name, 12)
    for number, row in enumerate(found, 1):
        assert row["retry"] == number
        assert row["least"] <= row["drawn"] <= row["greatest"]
        assert row["interval"] == row["least"] + (row["greatest"] - row["least"]) / 2
        assert row["total"] == pytest.approx(sum(before["drawn"] for before in found[:number]))


def test_the_table_says_where_the_policy_stops():
    said = call("delays aws -n 3")
    assert said.out.splitlines()[3:4] == ["STOP: the policy gives up, there is no retry 3."]
    assert "STOP" not in call("delays aws -n 2").out
    said = call("delays stop")
    assert said.out.splitlines()[1:] == ["STOP: the policy gives up, there is no retry 1."]


def test_what_a_policy_requires_may_be_given_without_its_option():
    expected = data_of("delays full-jitter --base 1 --cap 20 --seed 1")
    for line in ("full-jitter 1 20s", "full-jitter 20 --base 1000ms"):
        assert data_of(f"delays {line} --seed 1") == expected


def test_json_has_exactly_this_form():
    said = call("delays constant --interval 0.5 -n 2 --json")
    assert said.out == (
        '{"policy": "constant", "delays": ['
        '{"retry": 1, "interval": 0.5, "least": 0.5, "greatest": 0.5, "drawn": 0.5, "total": 0.5}, '
        '{"retry": 2, "interval": 0.5, "least": 0.5, "greatest": 0.5, "drawn": 0.5, "total": 1.0}'
        "]}\n"
    )
    assert call("delays stop --json").out == '{"policy": "stop", "delays": []}\n'


def test_the_plain_form_is_one_delay_a_line_and_csv_has_the_columns_of_json():
    assert call("delays constant --interval 4 -n 3 --plain") == (0, "4\n4\n4\n", "")
    assert call("delays stop --plain") == (0, "", "")
    said = call("delays exponential -n 5 --seed 1 --csv")
    assert "\r" not in said.out
    rows = list(csv.DictReader(io.StringIO(said.out)))
    expected = data_of("delays exponential -n 5 --seed 1")["delays"]
    assert [{name: float(value) for name, value in row.items()} for row in rows] == expected


PLAIN = "delays exponential --randomization-factor 0"


def test_the_chart_takes_the_room_there_is_and_no_line_is_cut():
    wide, narrow, none = (on_console(PLAIN, width=width) for width in (200, 80, 51))
    for text in (wide, narrow, none):
        assert text.splitlines()[12].split()[:6] == [
            *("12", "43.249", "[43.249,", "43.249]", "43.249", "128.746")
        ]
    assert "█" * 31 + "┃" in wide
    assert max(map(len, narrow.splitlines())) <= 80
    assert "█" in narrow
    assert "█" not in none


TITLES = ["retry", "interval", "[least,", "greatest]", "drawn", "total"]


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [
        (51, []),
        (41, ["interval"]),
        (40, ["interval", "total"]),
        (1, ["interval", "total", "[least,", "greatest]"]),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns_and_no_number_is_cut(columns, left_out):
    lines = on_console(PLAIN, width=columns).splitlines()
    assert lines[0].split() == [title for title in TITLES if title not in left_out]
    assert max(map(len, lines)) <= max(columns, 13)
    row = dict(zip(TITLES, ["2", "0.75", "[0.75,", "0.75]", "0.75", "1.25"], strict=True))
    assert lines[2].split()[: 6 - len(left_out)] == [
        number for title, number in row.items() if title not in left_out
    ]


def test_a_terminal_without_columns_has_80():
    assert on_console(PLAIN, width=0) == on_console(PLAIN, width=80) != ""


def test_colours_are_there_on_a_terminal_only_and_not_with_no_color():
    assert "\x1b[3" in on_console(PLAIN, width=80, color=True)
    assert "\x1b[3" not in call(PLAIN, FORCE_COLOR="1", TERM="xterm", NO_COLOR="1").out
    assert "\x1b[" not in call(PLAIN, TERM="xterm").out


def test_a_bar_is_filled_to_the_least_and_has_its_mark_at_the_drawn(own):
    lines = on_console("delays own_waits:Given", width=90).splitlines()
    bars = [line.split("  ")[-1] for line in lines[1:4]]
    assert bars == ["█" * 10 + "┃" + "░" * 9, "░" * 31 + "┃", "┃"]
    assert "least  " not in on_console("delays zero", width=90)  # no length, no chart


def test_piped_output_is_plain_and_of_letters_that_the_reader_knows():
    said = finish(start("delays", "go", "-n10", env=environment(PYTHONIOENCODING="ascii")))
    assert (said.status, said.err) == (0, "")
    assert said.out.isascii()
    assert "\x1b" not in said.out
    assert "[9.611, 28.833]" in said.out
    assert "= least  | drawn  - greatest" in said.out


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (10.0, "10"),
        # three decimals from 0.01 to 10,000,000, else four digits
        (0.01234, "0.012"),
        (0.00987654, "0.009877"),
        (9999999.125, "9999999.125"),
        (12_345_678.0, "1.235e+07"),
    ],
)
def test_a_number_for_people(number, text):
    row = call(f"delays constant {number!r} -n 1").out.splitlines()[1].split()
    assert row[:5] == ["1", text, f"[{text},", f"{text}]", text]
