"""``backoff-ticker simulate``: what it simulates, and how it shows that."""

import csv
import io
import os
import pty
import re
import signal
from math import sqrt

import pytest

from tests.effort import rounds

from .calling import call, data_of, environment, finish, on_console, start
from .running import Reader

# By clients and policy: the mean and the standard deviation of the calls, and of the milliseconds,
# in 200 trials of https://github.com/aws-samples/aws-arch-backoff-simulator, commit 66cb169, with
# range() in place of xrange().
ORIGINAL = {
    (10, "exponential-feedback"): (51.22, 4.21, 3609.7, 1357.0),
    (10, "decorrelated-jitter"): (37.84, 2.43, 448.3, 90.7),
    (10, "equal-jitter"): (42.38, 2.45, 727.5, 189.8),
    (10, "full-jitter"): (39.15, 2.27, 473.3, 119.0),
    (10, "zero"): (50.95, 3.76, 380.6, 33.6),
    (50, "exponential-feedback"): (619.85, 27.11, 35952.2, 2995.8),
    (50, "decorrelated-jitter"): (373.79, 12.96, 2250.1, 495.2),
    (50, "equal-jitter"): (347.31, 5.54, 4307.5, 599.8),
    (50, "full-jitter"): (332.6, 4.99, 2927.8, 571.7),
    (50, "zero"): (689.76, 17.88, 1143.1, 41.2),
    (190, "exponential-feedback"): (5154.78, 104.1, 101151.6, 3891.1),
    (190, "decorrelated-jitter"): (2426.03, 58.59, 7919.8, 811.6),
    (190, "equal-jitter"): (1760.02, 12.52, 9401.0, 623.3),
    (190, "full-jitter"): (1772.24, 13.47, 7414.9, 494.5),
    (190, "zero"): (8004.98, 63.69, 3538.9, 48.5),
}
TRIALS = 200
NOISE = 3.5
"""Standard errors; by chance one of 2,000 differences is greater."""

SMALL = "outage --clients 20 --healthy 10s --outage 1m --recovery 1m --seed 1"


def as_data(line, *policies):
    return data_of(f"simulate {line}", *policies)


def test_contention_has_the_figures_of_the_original():
    clients = "10,50" if rounds(0, 1) == 0 else "10,50,190"
    data = as_data(f"contention --seed 7 --clients {clients} --trials {TRIALS}")
    assert len(data["results"]) == 5 * len(clients.split(","))
    for row in data["results"]:
        calls, calls_vary, time, times_vary = ORIGINAL[row["clients"], row["policy"]]
        error = sqrt(2 / TRIALS)
        assert abs(row["calls"] - calls) <= NOISE * calls_vary * error, row
        assert abs(row["time"] * 1000 - time) <= NOISE * times_vary * error, row
        assert row["gave_up"] == 0


def test_a_single_client_is_never_in_conflict_and_waits_for_four_messages():
    line = "contention --clients 1 --latency 2s --trials 1000 --seed 1"
    (row,) = as_data(line, "zero")["results"]
    assert row["calls"] == 1
    assert row["time"] == pytest.approx(8, rel=0.01)


def test_a_client_gives_up_with_its_policy():
    titles, stop, *_ = call("simulate contention --clients 5 --trials 3 stop zero").out.splitlines()
    assert titles.split() == ["clients", "policy", "calls", "time", "gave", "up"]
    assert [*stop.split()[:3], stop.split()[4]] == ["5", "stop", "5", "4"]
    assert "gave up" not in call("simulate contention --clients 5 --trials 3 zero").out


def test_limits_of_elapsed_time_count_in_simulated_time_and_no_delay_is_too_long():
    policies = "constant 1s --max-elapsed-time 2s", "constant 1.7e308"
    limited, endless = as_data("contention --clients 5 --trials 2", *policies)["results"]
    assert limited["gave_up"] > 0
    assert 1 < limited["time"] < 2
    assert endless["time"] > 1e308


def test_an_outage_without_a_limit_with_a_budget_and_with_a_breaker():
    data = as_data(f"{SMALL} --budget 10", "constant 1s")
    none, budget, breaker = data["results"]
    assert [row["limit"] for row in data["results"]] == ["none", "budget", "breaker"]
    assert none["healthy"] == budget["healthy"] == breaker["healthy"] > 0
    # Each of 20 clients, but for its last pause, calls each 1.05 seconds.
    assert 900 < none["outage"] <= 20 * 60 / 1.05 + 20
    usual = 20 / 10.05
    assert none["load"] == none["outage"] / (60 * usual)
    assert none["load"] < none["peak"] <= (20 / 1.05 + 20) / usual
    assert 1 < budget["peak"] < none["peak"]
    assert none["recovered"] <= 1.1
    assert budget["load"] < 1.3
    assert breaker["load"] < 0.2
    # 5 s, 10 s, 20 s, each up to half longer: the last probe fails at the end of the outage.
    assert 0 < breaker["recovered"] < 60
    assert (data["outage"], data["budget"], data["seed"]) == (60, 10, 1)


def test_a_policy_that_gives_up_makes_a_request_fail_and_the_next_one_is_answered():
    rows = as_data(SMALL, "stop")["results"]
    assert rows[0]["outage"] == rows[1]["outage"]  # there are no retries for the budget
    assert 0.5 < rows[0]["load"] < 1.5
    assert 5 < rows[0]["recovered"] < 15


def test_some_clients_may_never_recover():
    line = "outage --clients 20 --every 1h --healthy 1m --recovery 1s --seed 1 --outage 1m"
    assert [row["recovered"] for row in as_data(line, "stop")["results"]] == [None] * 3
    assert call(f"simulate {line} stop").out.splitlines()[1].split()[7] == "never"


def test_a_policy_without_delays_ends_beside_a_breaker():
    line = "outage --clients 4 --healthy 10s --outage 20s --recovery 20s --seed 1"
    none, _, breaker = as_data(line, "zero")["results"]
    assert none["load"] > 100  # one call follows the other
    assert breaker["load"] < 2


def test_an_outage_that_nobody_meets_has_no_bars():
    line = "outage --clients 1 --every 1h --healthy 1s --outage 1s --recovery 1s --seed 1"
    assert "\u2588" not in call(f"simulate {line} stop").out


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["contention --clients 5,9 --trials 2", "outage --clients 9 --outage 20s"]
)
def test_the_same_seed_gives_the_same_whatever_else_is_shown(line):
    once, again, other = (as_data(f"{line} --seed {seed}") for seed in (1, 1, 2))
    assert once == again
    assert once["results"] != other["results"]
    assert as_data(line)["results"] != as_data(line)["results"]
    texts = ["exponential", "full-jitter 1s 20s"]
    both, alone = (as_data(f"{line} --seed 1", *some)["results"] for some in (texts, texts[1:]))
    assert [row for row in both if row["policy"] == texts[1]] == alone


def test_csv_has_the_columns_of_json():
    for line in ("contention --clients 5 --seed 1", SMALL):
        rows = list(csv.DictReader(io.StringIO(call(f"simulate {line} --csv", "constant 2").out)))
        expected = as_data(line, "constant 2")["results"]
        shown = [{name: str(value) for name, value in row.items()} for row in expected]
        assert rows == shown


def test_a_policy_is_a_name_with_options_and_maybe_a_label():
    texts = "full-jitter --base=1s --cap=20s", "a-b=full-jitter 1s --cap 20s"
    plain, labelled = as_data("contention --clients 5 --trials 2 --seed 1", *texts)["results"]
    assert plain["policy"] == texts[0]
    assert labelled == {**plain, "policy": "a-b"}


@pytest.mark.parametrize(
    ("width", "cells"),
    [
        (53, ["1", "full-jitter --base 1s --cap ..", "1", "0.047"]),
        (39, ["1", "full-jitter --..", "1", "0.047"]),
        (38, ["1", "full-jitter --..", "1"]),
    ],
)
def test_a_narrow_terminal_gets_words_shortened_then_fewer_columns(width, cells):
    line = "simulate contention --clients 1 --trials 1 --seed 1"
    shown = on_console(line, "full-jitter --base 1s --cap 20s", width=width).splitlines()
    assert [cell.strip() for cell in shown[1].split("  ") if cell] == cells
    assert shown[0].split() == ["clients", "policy", "calls", "time"][: len(cells)]


def test_the_bars_compare_policies_with_the_same_number_of_clients():
    line = "simulate contention --clients 3,30 --trials 5 stop zero"
    lines = call(line, COLUMNS="90").out.splitlines()
    bars = [line.count("\u2588") for line in lines[1:5]]
    assert bars[1] == bars[3] == 32  # without a wait there are more calls than with one attempt
    assert 0 < bars[2] < bars[0] < 32
    assert lines[5:] == ["\u2588 calls, by number of clients"]


def test_ctrl_c_ends_it_at_once_while_a_bar_on_the_terminal_tells_how_far_it_is():
    screen, terminal = pty.openpty()
    line = ["simulate", "contention", "--trials", "1000000", "--clients", "100", "zero"]
    process = start(*line, stderr=terminal, env=environment(TERM="xterm"))
    os.close(terminal)
    assert os.read(screen, 1) == b"\r"  # the bar is there
    process.send_signal(signal.SIGINT)
    assert finish(process) == (-signal.SIGINT, "", "")
    os.close(screen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("term", "seen"), [("xterm", rb"\r\[ {40}\] 0 %.*\r\x1b\[2K"), ("dumb", b"")]
)
def test_the_bar_is_removed_at_the_end(term, seen):
    screen, terminal = pty.openpty()
    process = start(*f"simulate {SMALL}".split(), stderr=terminal, env=environment(TERM=term))
    os.close(terminal)
    assert re.fullmatch(seen, Reader(screen).rest(), re.DOTALL)
    os.close(screen)
    assert finish(process) == (0, call(f"simulate {SMALL}").out, "")
