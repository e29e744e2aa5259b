"""The table of delays and its picture, on consoles of all kinds."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from backoff_ticker import ExponentialBackOff, StopBackOff, ZeroBackOff
from backoff_ticker.cli._delays import delays_of
from backoff_ticker.cli._table import as_table
from backoff_ticker.policies import FrozenClock


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
    clock = FrozenClock()
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
    clock = FrozenClock()
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

    lines = table(80, delays=delays_of(Policy(), 3, FrozenClock()), color=None).splitlines()
    bars = [line.split("  ")[-1] for line in lines[1:4]]
    width = max(map(len, bars))
    assert bars[1] == "░" * (width - 1) + "┃"
    filled, rest = bars[0].split("┃")
    assert filled == "█" * int(10 / 32 * width)
    assert set(rest) == {"░"}
    assert bars[2] == "┃"


@pytest.mark.parametrize("columns", [1, 20, 40, 60, 80])
@pytest.mark.parametrize("terminal", [True, False])
def test_no_column_is_left_out_however_narrow_the_console_is(columns, terminal):
    policy = ExponentialBackOff(randomization_factor=0)
    console = Console(
        width=columns, force_terminal=terminal, no_color=True, highlight=False, _environ={}
    )
    text = as_table(delays_of(policy, 2, FrozenClock()), 2, console)
    lines = re.sub("\x1b\\[[0-9;]*m", "", text).splitlines()
    assert lines[0].split() == ["retry", "interval", "[least,", "greatest]", "drawn", "total"]
    assert lines[2].split()[:6] == ["2", "0.75", "[0.75,", "0.75]", "0.75", "1.25"]
    assert console.width == columns
