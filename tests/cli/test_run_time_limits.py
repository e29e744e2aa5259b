"""`run` and time: of an attempt, of everything, between attempts."""

from __future__ import annotations

import subprocess
import time

from tests.cli.running import SOON, Running, flaky, shell, talks
from tests.helpers import eventually

NAME = "backoff-ticker"


def test_an_attempt_that_never_ends_is_cut_and_repeated():
    with shell("sleep 1000; :", attempt_timeout=SOON, max_attempts=2) as running:
        status, out, err = running.finish()
        assert running.nobody_left()
    assert (status, out) == (124, "")
    assert err.splitlines() == [
        f"{NAME}: attempt 1 timed out; next attempt in 0 s",
        f"{NAME}: attempt 2 of 2",
        f"{NAME}: attempt 2 timed out; giving up",
    ]


def test_an_attempt_that_was_cut_is_repeated_whatever_codes_are_listed(tmp_path):
    script = flaky(tmp_path / "runs", 1).replace("exit 3", "sleep 1000")
    with shell(script, attempt_timeout=0.5, on_exit_code="75") as running:
        assert running.wait() == 0
        assert b"attempt 1 timed out; next attempt" in running.err.rest()


def test_a_command_that_ends_well_when_it_is_cut_has_timed_out_all_the_same():
    command = talks("hears(signal.SIGTERM)()")
    with Running(*command, attempt_timeout=1, max_attempts=1) as running:
        assert running.wait() == 124


def test_the_time_for_everything_ends_a_running_attempt():
    with shell("sleep 1000; :", timeout=SOON) as running:
        assert running.finish() == (124, "", f"{NAME}: timed out\n")
        assert running.nobody_left()


def test_the_time_for_everything_counts_more_than_that_for_an_attempt():
    with shell("sleep 1000; :", timeout=SOON, attempt_timeout=1000) as running:
        assert running.finish() == (124, "", f"{NAME}: timed out\n")


def test_a_delay_counts_from_the_end_of_an_attempt():
    """The first attempt takes longer than the delay, so a delay from its start would be over."""
    delay = 0.3
    script = """
tell("%f\\n" % time.monotonic())
os.read(0, 1)
tell("%f\\n" % time.monotonic())
raise SystemExit(3)
"""
    how = {"stdin": subprocess.PIPE}
    with Running(*talks(script), delay=delay, max_attempts=2, how=how) as running:
        start = float(running.until(r"(.+)\n")[1])
        eventually(lambda: time.monotonic() > start + delay, "the end of a delay from the start")
        running.process.stdin.write(b"go")
        assert running.wait() == 3
        end, start, _ = map(float, running.told.rest().split())
        assert start - end >= delay


def test_no_wait_is_begun_that_would_pass_the_time_for_everything():
    with shell("exit 3", timeout=100, delay=1000) as running:
        text = f"{NAME}: attempt 1 exited with 3; no time for another attempt\n"
        assert running.finish() == (124, "", text)


def test_attempts_in_a_row_end_with_the_time_for_everything():
    with shell("exit 3", timeout=0.5, delay=0.01, quiet=True) as running:
        assert running.finish() == (124, "", "")


def test_a_time_for_everything_that_suffices_changes_nothing():
    with shell("exit 3", timeout=1000, attempt_timeout=1000, max_attempts=2) as running:
        assert running.wait() == 3
