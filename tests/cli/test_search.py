"""The search for a match in output that comes in parts, and a search that takes for ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest

from backoff_ticker.cli._search import LineSearch
from tests.cli.running import SOON, children, shell, state
from tests.helpers import eventually


def matches(pattern, *parts):
    search = LineSearch(re.compile(pattern))
    for part in parts:
        search.feed(part)
    search.close()
    return search.matched


TEXT = b"first\nsecond line\n\nlast"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("first", True),
        ("^second", True),
        ("line$", True),
        ("^$", True),
        ("last$", True),
        (r"\Asecond", True),
        (r"first\s+second", False),
        ("first$(?s:.*)", True),
        ("nd li", True),
        ("third", False),
        ("^line", False),
        (r"\n", False),
        ("first(?!$)", False),
    ],
)
def test_it_looks_at_each_line_however_the_parts_fall(pattern, expected):
    assert matches(pattern, TEXT) is expected
    assert matches(pattern, *(TEXT[at : at + 1] for at in range(len(TEXT)))) is expected
    for cut in range(len(TEXT)):
        assert matches(pattern, TEXT[:cut], TEXT[cut:]) is expected


def test_an_end_of_output_is_no_line():
    assert matches("^$", b"") is False
    assert matches("^$", b"x\n") is False
    assert matches("^$", b"x\n\n") is True


def test_text_is_decoded_as_arguments_are_and_a_letter_may_come_in_parts():
    letters = os.fsencode("naïve")
    assert matches("^na.ve$", letters[:3], letters[3:])
    assert matches("^\udcff$", b"\xff\n")


def test_a_line_without_end_takes_no_more_memory():
    search = LineSearch(re.compile("ready"))
    largest = 0
    for _ in range(300):
        search.feed(b"x" * 10_007)
        largest = max(largest, len(search._rest))
    assert largest < 80_000
    search.feed(b"rea")
    search.feed(b"dy")
    search.close()
    assert search.matched


def test_a_match_in_a_line_without_end_is_found_wherever_it_falls():
    for before in range(65_000, 66_000, 97):
        line = b"x" * before + b"ready" + b"x" * 100_000
        parts = [line[at : at + 1000] for at in range(0, len(line), 1000)]
        assert matches("ready", *parts)


# A search that takes for ever

ENDLESS = "(a+)+$"
TRAP = f"printf '%s\\n' {'a' * 60}! first {'b' * 30}; echo ready >&9"


@pytest.mark.parametrize(
    ("limit", "after"),
    [
        ("timeout", ""),
        ("timeout", "exit 3"),
        ("timeout", "sleep 1000; :"),
        ("timeout", "exec yes"),
        ("attempt_timeout", "sleep 1000; :"),
    ],
)
def test_an_endless_search_holds_up_no_time_out(limit, after):
    options = {limit: 1, "max_attempts": 2, "until_output": ENDLESS, "grace": SOON}
    how = {"stdout": subprocess.DEVNULL} if "yes" in after else {}
    with shell(f"{TRAP}\n{after}", how=how, **options) as running:
        assert running.wait() == 124
        assert running.nobody_left()


def test_an_endless_search_and_a_reader_that_does_not_read_hold_up_no_time_out():
    options = {"timeout": 1, "until_output": ENDLESS, "grace": SOON}
    with shell(f"{TRAP}; head -c 100000 /dev/zero", **options) as running:
        assert running.wait() == 124


@pytest.mark.parametrize("after", ["", "exec sleep 1000"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_endless_search_holds_up_no_signal(after, number):
    with shell(f"{TRAP}\n{after}", until_output=ENDLESS) as running:
        running.until("ready")
        running.out.until("bbb")
        running.signal(number)
        assert running.wait() == 128 + number
        assert running.nobody_left()


def test_an_endless_search_does_not_outlive_a_run_that_is_killed():
    with shell(f"{TRAP}; exec sleep 1000", until_output=ENDLESS) as running:
        running.until("ready")
        command, searching = sorted(children(running), key=lambda child: "python" in name_of(child))
        running.signal(signal.SIGKILL)
        eventually(lambda: not state(searching), "the end of the search")
        os.kill(command, signal.SIGKILL)


def name_of(process):
    command = ["ps", "-o", "comm=", "-p", str(process)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_after_a_match_nothing_is_searched():
    """Such as the next line, which may take for ever."""
    script = f"printf 'first\\n%s!' {'a' * 60}; echo ready >&9"
    with shell(script, until_output=f"^first$|{ENDLESS}") as running:
        running.until("ready")
        assert running.out.rest() == b"first\n" + b"a" * 60 + b"!"
        assert running.wait() == 0
