"""`run` and signals: who gets them, what it exits with, and that nobody is left."""

import signal
import subprocess
import sys

import pytest

from tests import effort
from tests.cli.running import SOON, Running, shell, state, talks, unread
from tests.helpers import eventually

slow = pytest.mark.slow
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGQUIT: 131}
ALL = "signal.SIGINT, signal.SIGTERM, signal.SIGHUP"

EACH = [signal.SIGTERM, *(pytest.param(one, marks=slow) for one in SIGNALS if one != 15)]


@pytest.mark.parametrize("number", EACH, ids=str)
def test_a_signal_in_an_attempt_reaches_its_group_and_ends_the_run(number):
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
        # That the command exits with 0 hides nothing.
        assert running.wait() == SIGNALS[number]
        assert running.err.rest().decode() == f"backoff-ticker: ended by {number.name}\n"
        heard = sorted(running.told.rest().split(b"\n"))
        assert heard == [b"", b"child %d" % number, b"parent %d" % number]


@pytest.mark.parametrize("number", EACH, ids=str)
def test_a_signal_in_a_wait_ends_it(number):
    with shell("echo ready >&9; exit 7", delay=1000) as running:
        running.err.until("attempt 1 exited with 7; next attempt in 1000 s\n")
        running.signal(number)
        assert running.finish() == (
            SIGNALS[number],
            "",
            f"backoff-ticker: ended by {number.name}\n",
        )
        assert running.told.rest() == b"ready\n"


@pytest.mark.parametrize("number", EACH, ids=str)
def test_a_signal_ends_a_run_that_reads_stdin_to_keep_it(number):
    """By its own exit: the first process of a container dies of no signal by itself."""
    with Running("cat", keep_stdin=True, stdin=subprocess.PIPE) as running:
        running.process.stdin.write(b"some")
        eventually(lambda: unread(running.process.stdin) == 0, "the read")
        running.signal(number)
        assert running.finish() == (SIGNALS[number], "", "")


CHILD = "rests_in_the_background({}); rests()"


@pytest.mark.parametrize(
    ("number", "script", "grace"),
    [
        (signal.SIGTERM, CHILD.format(ALL), SOON),
        (signal.SIGINT, f"rests({ALL})", SOON),
        pytest.param(signal.SIGTERM, f"rests({ALL})", SOON, marks=slow),
        pytest.param(signal.SIGINT, CHILD.format(ALL), SOON, marks=slow),
        pytest.param(signal.SIGTERM, "rests_and_is_stopped()", 1000, marks=slow),
        # It gets SIGTERM as soon as the command itself has ended.
        pytest.param(signal.SIGINT, CHILD.format("signal.SIGINT"), 1000, marks=slow),
    ],
)
def test_what_ignores_signals_is_ended(number, script, grace):
    with Running(*talks(script), grace=grace) as running:
        running.until(rf"(?s)(ready.*){{{script.count('rests')}}}\n")
        running.signal(number)
        assert running.wait() == SIGNALS[number]
        assert running.nobody_left()


@pytest.mark.parametrize("options", [pytest.param({}, marks=slow), {"until_output": "never"}])
def test_a_command_gets_time_to_end_in_its_own_way(options):
    """No SIGTERM follows a SIGINT before the time is over."""
    script = "hears(signal.SIGINT)(); tell('heard'); waits(); os.write(1, b'all is saved')"
    with Running(*talks(script), **options) as running:
        running.until("ready")
        running.signal(signal.SIGINT)
        running.until("heard")
        running.go()
        assert running.out.rest() == b"all is saved"
        assert running.wait() == 130


BREAKS = """
from backoff_ticker.cli._process import Process
async def wait(self, timeout):
    os.read(int(os.environ["GO"]), 1)
    raise OSError(28, "no room")
Process.wait = wait
"""


def test_a_command_that_ignores_all_signals_is_killed_as_the_run_breaks_off():
    with Running(*talks(f"rests({ALL})"), prelude=f"import os{BREAKS}") as running:
        running.until("ready")
        running.go()
        assert running.finish() == (1, "", "Error: cannot go on: no room\n")
        assert running.nobody_left()


SIGNALLED_AS_IT_CLOSES = """
import asyncio.selector_events, os, signal
def close(self, close=asyncio.selector_events.BaseSelectorEventLoop._close_self_pipe):
    close(self)
    os.kill(os.getpid(), signal.SIGCHLD)
asyncio.selector_events.BaseSelectorEventLoop._close_self_pipe = close
"""


@slow
def test_a_signal_as_the_event_loop_closes_leaves_no_message():
    with Running("true", prelude=SIGNALLED_AS_IT_CLOSES) as running:
        assert running.finish() == (0, "", "backoff-ticker: attempt 1 succeeded\n")


@slow
def test_no_signal_is_lost_and_nobody_is_left_while_attempts_start_and_end():
    """The signal falls anywhere: into the start of a process, an attempt, or between two."""
    for turn in range(effort.rounds(5, 20)):
        with shell("echo $$ >&9; exit 1", quiet=True) as running:
            running.until(rf"(\d+\n){{{turn % 10 + 1}}}")
            running.signal(signal.SIGTERM)
            assert running.wait() == 143
            assert running.nobody_left()


@slow
def test_a_signal_does_not_reach_what_a_command_has_left_behind():
    """The command has ended, and some of its output is still to be read."""
    script = "(read line </dev/fd/$GO; echo went >&9) & head -c 100000 /dev/zero; echo $$ >&9"
    with shell(script, until_output="never", grace=SOON) as running:
        command = int(running.until(r"(\d+)\n")[1])
        eventually(lambda: not state(command), "the end of the command")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143
        running.go()
        running.until("went")


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, pytest.param(signal.SIGINT, marks=slow)], ids=str
)
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


@slow
@pytest.mark.parametrize("how", ["blocked", "ignored"])
def test_the_end_of_a_command_is_noticed_whatever_the_caller_does_with_sigchld(how):
    with shell("exit 3", max_attempts=1, **{how: [signal.SIGCHLD]}) as running:
        assert running.wait() == 3


SUBREAPER = """
import ctypes
assert not ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
"""
LEAVES_AN_ORPHAN = """
read, write = os.pipe()
if not os.fork():
    orphan = os.fork()
    if not orphan:
        os.close(write)
        os.read(read, 1)  # until nobody can write
        os._exit(0)
    tell("orphan %d\\n" % orphan)
    os._exit(0)
os.wait()
os.close(write)
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux gives orphans to others")
@slow
def test_orphans_that_end_are_collected_as_the_first_process_of_a_container_has_to():
    with Running(*talks(LEAVES_AN_ORPHAN), prelude=SUBREAPER) as running:
        orphan = int(running.until(r"orphan (\d+)\n").group(1))
        eventually(lambda: not state(orphan), "the end of the orphan")
        running.signal(signal.SIGTERM)
        assert running.wait() == 143
