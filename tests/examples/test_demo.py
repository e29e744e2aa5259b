"""The demo of the README: what it shows, how it ends, and what must not go wrong at first sight."""

import os
import pty
import re
import runpy
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cli.running import Reader
from tests.helpers import python

from .conftest import ROOT

DEMO = ROOT / "examples" / "demo.py"
JOBS = ["client-1", "client-2", "client-3", "client-4", "server"]
WHERE = {"client-1": "thread", "client-2": "thread"}

WHO = r"(client-\d|server) +(thread|event loop)"
EVENT = re.compile(
    rf" *(\d+\.\d) s  {WHO} +"
    r"(up|DOWN|attempt (\d+) succeeded|attempt (\d+) failed, the next follows in (\d\.\d\d) s)"
)
ENDED = re.compile(rf"{WHO}  ([a-z ]+(?: \d+)?) +(\d\.\d\d) s +(\d+\.\d\d) ms")
TITLES = [
    "  time  who       runs in     what happens",
    "who       runs in     was waiting for   due in   ended after",
]
HINT = "        Now press Ctrl-C: all clients wait for their next attempt."
SUMMARY = re.compile(r"All 5 ended within (\d+\.\d) ms\.")


@pytest.fixture
def demo(start):
    """Starts the demo, which sees to it that lines come at once."""
    return partial(start, "demo", options=(), PYTHONUNBUFFERED="")


def check_report(lines):
    """Every job has ended, and said for what it waited; no line has another shape."""
    first = lines.index(TITLES[1])
    ended = [ENDED.fullmatch(line) for line in lines[first + 1 : first + 6]]
    assert sorted(match[1] for match in ended) == JOBS
    assert all(match[2] == WHERE.get(match[1], "event loop") for match in ended)
    blank, summary = lines[first + 6 :]
    assert (blank, bool(SUMMARY.fullmatch(summary))) == ("", True)


def test_it_begins_with_an_outage_and_says_when_to_press_ctrl_c(demo):
    lines = demo("--seconds", "3").finish()
    assert max(map(len, lines)) <= 80
    first = lines.index(TITLES[0]) + 1
    shown = lines[first : lines.index("", first)]
    hint = shown.index(HINT)
    events = [EVENT.fullmatch(line) for line in shown if line != HINT]
    assert sorted({event[2] for event in events}) == JOBS
    assert [event[4] for event in events if not event[6]] == ["DOWN"]
    assert {event[2] for event in events[:hint] if event[6]} == set(JOBS[:4])
    assert "3 s have passed. The token is cancelled, and every wait ends:" in lines
    check_report(lines)


@pytest.mark.slow
def test_clients_retry_during_the_outage_with_growing_delays_and_succeed_after_it(demo):
    lines = demo("--seconds", "11").finish()
    events = [event for line in lines if (event := EVENT.fullmatch(line))]
    server = [(int(float(event[1]) // 5), event[4]) for event in events if event[2] == "server"]
    assert server[:3] == [(0, "DOWN"), (1, "up"), (2, "DOWN")]  # every five seconds
    for name in JOBS[:4]:
        ours = [event for event in events if event[2] == name]
        ours = ours[: 1 + next(n for n, event in enumerate(ours) if event[5])]  # the first outage
        delays = [float(event[7]) for event in ours if event[7]]
        for delay, interval in zip(delays, [0.5, 1.0, 2.0, 2.0, 2.0], strict=False):
            assert 0.5 * interval <= delay + 0.01 <= 1.5 * interval + 0.02
        assert int(ours[-1][5]) == len(delays) + 1


@pytest.mark.parametrize(
    ("number", "why"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")]
)
def test_a_signal_ends_all_waits_at_once(demo, number, why):
    process = demo("--seconds", "3600")
    process.until("client-4")
    process.send_signal(number)
    lines = process.finish(128 + number)
    assert f"{why}. The token is cancelled, and every wait ends:" in lines
    check_report(lines)


@pytest.mark.parametrize(
    "pause", [0, 0.03, *(pytest.param(0.01 * n, marks=pytest.mark.slow) for n in range(1, 20))]
)
def test_a_second_ctrl_c_changes_nothing(demo, pause):
    process = demo()
    process.until("client-4")
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(pause)
    process.finish(130)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_leaves_no_traceback(demo, tmp_path, number):
    (tmp_path / "backoff_ticker.py").write_text(
        # Short sleeps: a signal in the instructions before one is noticed when it ends.
        "import time\nprint(1, flush=True)\nwhile True: time.sleep(0.05)\n"
    )
    process = demo(PYTHONPATH=str(tmp_path))
    process.until("1")
    process.send_signal(number)
    assert process.finish(128 + number) == []


def test_it_ends_quietly_when_its_reader_leaves(demo):
    read, write = os.pipe()
    process = demo(stdout=write)
    os.close(write)
    assert os.read(read, 1)
    os.close(read)
    process.finish(1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_it_ends_quietly_when_the_disk_is_full(demo):
    with Path("/dev/full").open("w") as full:
        demo(stdout=full).finish(1)


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_on_a_terminal_unless_no_color_is_set(demo, no_color, coloured):
    ours, theirs = pty.openpty()
    process = demo("--seconds", "0.2", stdout=theirs, NO_COLOR=no_color)
    os.close(theirs)
    shown = Reader(ours).rest()
    os.close(ours)
    process.finish()
    assert (b"\x1b[31m " in shown) is coloured
    assert (b"\x1b" in shown) is coloured


@pytest.mark.parametrize(
    "options",
    [["--seconds", "0"], ["--seconds", "nan"], ["--seconds", "inf"], ["--seconds", "x"], ["x"]],
)
def test_a_bad_option_is_told(monkeypatch, capsys, options):
    monkeypatch.setattr(sys, "argv", ["demo.py", *options])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(DEMO))["main"]()
    assert caught.value.code == 2
    assert "demo.py: error: " in capsys.readouterr().err


def test_nothing_is_left_over():
    code = (
        "import os, sys, threading\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "from demo import main\n"
        "before = os.listdir('/dev/fd')\n"
        "main()\n"
        "threads = [one for one in threading.enumerate() if not one.daemon]\n"
        "print(threads == [threading.main_thread()], os.listdir('/dev/fd') == before)"
    )
    command = ["-X", "dev", "-W", "error", "-c", code, DEMO.parent, "--seconds", "0.2"]
    done = python(*command, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True True"
