"""`run` and signals: who gets them, what it exits with, and that nobody is left."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cli.running import SOON, Running, is_stopped, shell, talks
from tests.helpers import eventually

SIGNALS = {
    signal.SIGINT: 130,
    signal.SIGTERM: 143,
    signal.SIGHUP: 129,
    signal.SIGQUIT: 131,
}
ALL = "signal.SIGINT, signal.SIGTERM, signal.SIGHUP"


@pytest.mark.parametrize(("number", "status"), SIGNALS.items())
def test_a_signal_in_an_attempt_ends_it_and_the_run(number, status):
    with Running(*talks("rests()")) as running:
        running.until("ready")
        running.signal(number)
        assert running.wait() == status
        assert running.nobody_left()
        assert running.err.rest().decode() == f"backoff-ticker: ended by {number.name}\n"


@pytest.mark.parametrize(("number", "status"), SIGNALS.items())
def test_a_signal_in_a_wait_ends_it(number, status):
    with shell("echo ready >&9; exit 7", delay=1000) as running:
        running.err.until("attempt 1 exited with 7; next attempt in 1000 s\n")
        running.signal(number)
        assert running.finish() == (status, "", f"backoff-ticker: ended by {number.name}\n")
        assert running.told.rest() == b"ready\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_the_command_and_its_children_get_the_signal_itself(number):
    script = f"""
signal.pthread_sigmask(signal.SIG_BLOCK, [{number:d}])
who = "child" if os.fork() == 0 else "parent"
heard = hears({number:d})
tell(f"{{who}} {{heard():d}}\\n")
who == "child" or os.wait()
"""
    with Running(*talks(script)) as running:
        running.until(r"(?s)ready.*ready \d+\n")
        running.signal(number)
        assert running.wait() == SIGNALS[number]
        assert sorted(running.told.rest().split(b"\n")) == [
            b"",
            b"child %d" % number,
            b"parent %d" % number,
        ]


def test_a_command_that_ends_well_on_the_signal_does_not_hide_it():
    with Running(*talks("hears(signal.SIGTERM)()")) as running:
        running.until("ready")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ignored", ["signal.SIGINT", ALL])
def test_a_child_in_the_background_that_ignores_signals_is_ended(number, ignored):
    script = f"rests_in_the_background({ignored}); rests()"
    with Running(*talks(script), grace=SOON) as running:
        running.until(r"(?s)ready.*ready \d+\n")
        running.signal(number)
        assert running.wait() == SIGNALS[number]
        assert running.nobody_left()


def test_a_child_in_the_background_that_ignores_sigint_is_not_waited_for():
    """It gets SIGTERM as soon as the command itself has ended."""
    script = "rests_in_the_background(signal.SIGINT); rests()"
    with Running(*talks(script), grace=1000) as running:
        running.until(r"(?s)ready.*ready \d+\n")
        running.signal(signal.SIGINT)
        assert running.wait() == 130
        assert running.nobody_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_ignores_all_signals_is_killed(number):
    with Running(*talks(f"rests({ALL})"), grace=SOON) as running:
        running.until("ready")
        running.signal(number)
        assert running.wait() == SIGNALS[number]
        assert running.nobody_left()


def test_a_command_that_takes_too_long_and_ignores_sigterm_is_killed_with_its_children():
    command = talks(f"rests_in_the_background({ALL}); rests({ALL})")
    with Running(*command, grace=SOON, attempt_timeout=1, max_attempts=2) as running:
        assert running.wait() == 124
        assert running.nobody_left()


def test_a_stopped_command_is_ended_too():
    with shell("echo ready >&9; kill -STOP $$; :") as running:
        running.until("ready")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143
        assert running.nobody_left()


def test_a_command_that_somebody_stops_is_waited_for():
    with shell("echo $$ >&9; kill -STOP $$; echo on >&9") as running:
        child = int(running.until(r"(\d+)\n")[1])
        eventually(lambda: is_stopped(child), "the stop")
        os.kill(child, signal.SIGCONT)
        running.until("on")
        assert running.wait() == 0


@pytest.mark.parametrize("name", ["TTIN", "TSTP"])
def test_without_a_terminal_its_signals_stop_nobody_else(name):
    """The test would stop with its whole group."""
    options = {"attempt_timeout": 1, "max_attempts": 1, "how": {"start_new_session": True}}
    with shell(f"kill -{name} $$; sleep 1000; :", **options) as running:
        assert running.wait() == 124


def test_no_signal_is_lost_and_nobody_is_left_while_attempts_start_and_end():
    """The signal falls anywhere: into the start of a process, an attempt, or between two."""
    for turn in range(10):
        with shell("echo $$ >&9; exit 1", quiet=True) as running:
            running.until(rf"(\d+\n){{{turn + 1}}}")
            running.signal(signal.SIGTERM)
            assert running.wait() == 143
            assert running.nobody_left()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_was_ignored_stays_ignored(number):
    """As nohup wants it, and shells for what they start in the background."""
    script = "echo ready >&9; kill -$0 $$; echo still >&9; sleep 1000; :"
    name = number.name.removeprefix("SIG")
    with Running("sh", "-c", script, name, ignored=[number]) as running:
        running.until("ready")
        running.signal(number)
        running.until("still")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143


def test_a_blocked_sigchld_is_heard_all_the_same():
    with shell("exit 3", blocked=[signal.SIGCHLD], max_attempts=1) as running:
        assert running.wait() == 3


def test_an_ignored_sigchld_is_heard_all_the_same():
    with shell("exit 3", ignored=[signal.SIGCHLD], max_attempts=1) as running:
        assert running.wait() == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_command_that_dies_of_an_interrupt_is_not_repeated(number):
    with shell(f"kill -{number} $$") as running:
        text = f"attempt 1 was killed by {number.name}; interrupted"
        assert running.finish() == (128 + number, "", f"backoff-ticker: {text}\n")


def test_a_command_that_exits_as_interrupted_ones_do_is_not_repeated():
    with shell("exit 130") as running:
        assert running.finish()[::2] == (
            130,
            "backoff-ticker: attempt 1 exited with 130; interrupted\n",
        )


def test_an_interrupt_that_is_listed_is_repeated():
    with shell("exit 130", on_exit_code="130", max_attempts=3) as running:
        assert running.wait() == 130
        assert running.err.rest().count(b"exited with 130") == 3
