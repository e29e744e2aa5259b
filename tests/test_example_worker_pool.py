"""The pool of workers does what its docstring says, and every job once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.test_examples import (
    ENVIRONMENT,
    PATIENCE,
    PYTHON,
    ROOT,
    SLOW_CALLBACK,
    check_quiet_end,
    check_refusal,
    none_runs_on,
    read_until,
    start,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["none_runs_on"]  # a fixture of these tests, too

WORKER_POOL: Path = ROOT / "examples" / "worker_pool.py"
ALL_WORKERS = {"thread-1", "thread-2", "thread-3", "task-1"}
QUICK = ["--duration", "0.5", "--interval", "0.02", "--work", "0.005"]
TOO_MUCH = ["--duration", "0.5", "--interval", "0.005", "--work", "0.03", "--capacity", "1"]
LONG = ["--duration", "60", "--interval", "0.02"]

JOB = re.compile(r"([a-z]+-\d) +(feed-\d) +(\d+)(?:, (\d+) missed)?")
HEAD = re.compile(r"\d+ feeds, \d+ threads and \d+ tasks")
COUNTS = re.compile(r"(?:, )?([a-z]+-\d) (\d+)")
TOTAL = re.compile(r"(\d+) done, (\d+) left, (\d+) dropped in (\d+\.\d\d) s")
INTERRUPTED = re.compile(r"interrupted by (SIG[A-Z]+)")


class Run:
    """A run that has ended, read line by line; a line of no known shape is an error."""

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status = status
        self.errors = SLOW_CALLBACK.sub("", errors)
        self.by_worker: dict[str, int] = defaultdict(int)
        self.by_feed: dict[str, list[int]] = defaultdict(list)
        self.counts: dict[str, int] = {}
        self.interrupted_by = ""
        for line in output.splitlines():
            if job := JOB.fullmatch(line):
                self.by_worker[job[1]] += 1
                self.by_feed[job[2]].append(int(job[3]))
            elif total := TOTAL.fullmatch(line):
                self.done, self.left, self.dropped = (int(total[number]) for number in (1, 2, 3))
                self.seconds = float(total[4])
            elif interrupted := INTERRUPTED.fullmatch(line):
                self.interrupted_by = interrupted[1]
            elif counts := COUNTS.findall(line):
                self.counts = {who: int(number) for who, number in counts}
            else:
                assert not line or HEAD.fullmatch(line), line

    def check(self) -> None:
        """Check that all that was accepted was done, and once."""
        assert self.errors == ""
        assert self.left == 0
        assert self.counts == self.by_worker
        assert self.done == sum(self.by_worker.values()) > 0
        gaps = 0
        for numbers in self.by_feed.values():
            assert len(set(numbers)) == len(numbers)
            gaps += max(numbers) - len(numbers)
        assert gaps <= self.dropped


def finish(process: subprocess.Popen[str], read: str = "") -> Run:
    output, errors = process.communicate(timeout=PATIENCE)
    ended = Run(process.returncode, read + output, errors)
    ended.check()
    return ended


def run(*options: str) -> Run:
    return finish(start(*options, example=WORKER_POOL))


def test_by_default_all_work_for_two_seconds() -> None:
    ended = run()
    assert ended.status == 0
    assert set(ended.by_worker) == ALL_WORKERS
    assert set(ended.by_feed) == {"feed-1", "feed-2", "feed-3", "feed-4"}
    assert 2.0 <= ended.seconds < 3.5


@pytest.mark.parametrize("absent", ["--workers", "--tasks"])
def test_one_kind_of_worker_does_without_the_other(absent: str) -> None:
    ended = run(absent, "0", *QUICK)
    assert ended.status == 0
    kind = {"--workers": "thread", "--tasks": "task"}[absent]
    assert ended.by_worker
    assert not any(who.startswith(kind) for who in ended.by_worker)


def test_what_finds_no_room_is_dropped_and_counted() -> None:
    ended = run(*TOO_MUCH)
    assert ended.status == 0
    assert ended.dropped > 0


def test_on_a_rendezvous_only_waiting_workers_get_jobs() -> None:
    assert run(*QUICK, "--capacity", "0").status == 0


def test_without_feeds_nothing_is_done() -> None:
    process = start("--feeds", "0", *QUICK, example=WORKER_POOL)
    output, errors = process.communicate(timeout=PATIENCE)
    ended = Run(process.returncode, output, errors)
    assert (ended.status, ended.errors, ended.done, ended.left) == (0, "", 0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", [0, 20])
def test_a_signal_ends_it_when_all_accepted_jobs_are_done(number: int, jobs: int) -> None:
    process = start(*LONG, example=WORKER_POOL)
    read = read_until(process, HEAD, 1)
    read += read_until(process, JOB, jobs)
    sent = time.monotonic()
    os.killpg(process.pid, number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - sent < 1.5
    ended = Run(process.returncode, read + output, errors)
    if jobs:
        ended.check()
    assert (ended.errors, ended.left) == ("", 0)
    assert ended.interrupted_by == signal.Signals(number).name
    assert ended.status == 128 + number


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--duration", "0"], "--duration"),
        (["--duration", "nan"], "--duration"),
        (["--interval", "inf"], "--interval"),
        (["--work", "-1"], "--work"),
        (["--capacity", "-1"], "--capacity"),
        (["--capacity", "2.5"], "--capacity"),
        (["--feeds", "many"], "--feeds"),
        (["--workers", "101"], "--workers"),
        (["--workers", "0", "--tasks", "0"], "--workers"),
        (["--frobnicate"], "--frobnicate"),
        (["extra"], "extra"),
    ],
    ids=" ".join,
)
def test_a_bad_option_is_told_in_one_line(options: list[str], named: str) -> None:
    check_refusal(start(*options, example=WORKER_POOL), "worker_pool.py", named)


def test_it_ends_quietly_when_nobody_reads_its_output() -> None:
    check_quiet_end(start(*LONG, example=WORKER_POOL))


LEFT_OVER = """
import importlib.util, sys, threading
spec = importlib.util.spec_from_file_location("example", sys.argv.pop(1))
program = sys.modules["example"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
program.main()
print([thread.name for thread in threading.enumerate() if not thread.daemon])
"""


def test_no_thread_that_could_keep_the_program_is_left_over() -> None:
    done = subprocess.run(
        [*PYTHON, "-c", LEFT_OVER, str(WORKER_POOL), *QUICK],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=ENVIRONMENT,
        check=False,
    )
    assert SLOW_CALLBACK.sub("", done.stderr) == ""
    assert done.stdout.splitlines()[-1] == "['MainThread']"
