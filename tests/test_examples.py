"""The examples do in a process of their own what their docstrings say, and nothing is left over."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import backoff_ticker

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
RECONNECT = ROOT / "examples" / "reconnect.py"
PYTHON = [sys.executable, "-X", "dev", "-W", "error"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}
PATIENCE = 30.0
EIGHT = [f"{kind}-{number}" for kind in ("thread", "task") for number in (1, 2, 3, 4)]
QUICK = ["--initial-interval", "0.001"]
IN_A_WAIT = ["--initial-interval", "60"]
IN_AN_ATTEMPT = ["--hang", *QUICK, "--attempt-timeout", "60"]

TICK = re.compile(r"([a-z]+-\d) +(\d+) +(\d+\.\d{3}) s +\d+\.\d\d ms  ([a-z ]+)")
ENDING = re.compile(r"([a-z]+-\d) +((?:connected|gave up|cancelled) .*\d)")
TOTAL = re.compile(r"(\d+) ticks in (\d+\.\d\d) s: (.*)")
HEAD = re.compile(r"\d threads and \d tasks, seed \w+")
COLUMNS = re.compile(r"who +tick +delay +late +outcome")
UNANSWERED = re.compile(r"[a-z]+-\d +\(waits for an answer\)")
SLOW_CALLBACK = re.compile(r"Executing .* took \d+\.\d+ seconds\n")


class TickLine(NamedTuple):
    """What a tick line tells that depends on the seed alone."""

    number: int
    delay: float
    outcome: str


class Run:
    """A run that has ended, read line by line; a line of no known shape is an error."""

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status = status
        self.errors = SLOW_CALLBACK.sub("", errors)  # debug mode on a busy machine
        self.ticks: dict[str, list[TickLine]] = defaultdict(list)
        self.endings: dict[str, str] = {}
        self.total: tuple[str, ...] = ()
        *lines, self.result = output.splitlines()
        for line in lines:
            if tick := TICK.fullmatch(line):
                who, number, delay, outcome = tick.groups()
                self.ticks[who].append(TickLine(int(number), float(delay), outcome))
            elif ending := ENDING.fullmatch(line):
                self.endings[ending[1]] = ending[2]
            elif total := TOTAL.fullmatch(line):
                self.total = total.groups()
            else:
                shapes = (HEAD, COLUMNS, UNANSWERED)
                assert not line or any(shape.fullmatch(line) for shape in shapes), line

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(tick.outcome for ticks in self.ticks.values() for tick in ticks)

    @property
    def seconds(self) -> float:
        return float(self.total[1])


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def none_runs_on() -> Iterator[None]:
    yield
    while _started:
        with _started.pop() as process:
            process.kill()


def start(*options: str, example: Path = RECONNECT) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*PYTHON, str(example), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    _started.append(process)
    return process


def finish(process: subprocess.Popen[str], read: str = "") -> Run:
    output, errors = process.communicate(timeout=PATIENCE)
    return Run(process.returncode, read + output, errors)


def run(*options: str) -> Run:
    return finish(start(*options))


def read_until(process: subprocess.Popen[str], shape: re.Pattern[str], count: int) -> str:
    """Read the output up to the ``count``-th line of that shape."""
    assert process.stdout is not None
    read = ""
    while count:
        line = process.stdout.readline()
        assert line, f"the output ends after {read}"
        read += line
        count -= shape.fullmatch(line.rstrip("\n")) is not None
    return read


def interrupt(process: subprocess.Popen[str], number: int, read: str) -> Run:
    """Send the signal as the terminal or ``kill`` does; the run must end within a second."""
    sent = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    ended = finish(process, read)
    assert time.monotonic() - sent < 1.0
    return ended


@pytest.fixture(scope="module")
def default_run() -> Run:
    return run()


def test_by_default_all_eight_connect(default_run: Run) -> None:
    assert (default_run.status, default_run.errors) == (0, "")
    assert default_run.result == "8 of 8 connected"
    assert list(default_run.endings) == EIGHT
    assert sorted(default_run.ticks) == sorted(EIGHT)


@pytest.mark.parametrize("seed", ["1", "2", "z"])
def test_each_client_meets_every_failure_and_then_connects(seed: str) -> None:
    ended = run("--seed", seed, *QUICK)
    for who, ticks in ended.ticks.items():
        *failures, last = [tick.outcome for tick in ticks]
        assert last == "connected"
        assert set(failures) == {"refused", "reset", "half a line"}
        assert [tick.number for tick in ticks] == list(range(1, len(ticks) + 1))
        assert ended.endings[who] == f"connected at tick {len(ticks)}"


def test_delays_grow_from_zero_as_the_back_off_says() -> None:
    for ticks in run("--initial-interval", "0.05").ticks.values():
        first, *others = [tick.delay for tick in ticks]
        assert first == 0.0
        for retry, delay in enumerate(others):
            assert delay == pytest.approx(0.05 * 1.5**retry, rel=0.5, abs=0.001)


def test_the_sum_agrees_with_the_tick_lines(default_run: Run) -> None:
    number, _, outcomes = default_run.total
    assert int(number) == sum(len(ticks) for ticks in default_run.ticks.values())
    told = {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z ]+)", outcomes)}
    assert told == dict(default_run.outcomes)
    assert default_run.outcomes["connected"] == 8


def test_no_client_ticks_early(default_run: Run) -> None:
    waited = max(sum(tick.delay for tick in ticks) for ticks in default_run.ticks.values())
    assert default_run.seconds >= waited - 0.02


def test_the_seed_alone_decides_failures_and_delays() -> None:
    first, again, other = (run("--seed", seed, *QUICK).ticks for seed in ("7", "7", "8"))
    assert first == again
    assert first != other


@pytest.mark.parametrize("absent", ["--workers", "--tasks"])
def test_one_kind_of_client_connects_without_the_other(absent: str) -> None:
    ended = run(absent, "0", *QUICK)
    assert ended.result == "4 of 4 connected"
    assert (ended.status, ended.errors) == (0, "")


def test_when_the_server_never_serves_every_client_gives_up() -> None:
    ended = run("--never-serve", "--max-retries", "6", *QUICK)
    assert ended.endings == dict.fromkeys(EIGHT, "gave up after tick 7")
    assert {who: len(ticks) for who, ticks in ended.ticks.items()} == dict.fromkeys(EIGHT, 7)
    assert ended.result == "0 of 8 connected, gave up"
    assert (ended.status, ended.errors) == (1, "")


def test_an_attempt_without_an_answer_times_out() -> None:
    ended = run("--hang", "--attempt-timeout", "0.02", "--max-retries", "5", *QUICK)
    assert ended.endings == dict.fromkeys(EIGHT, "gave up after tick 6")
    assert {ticks[-1].outcome for ticks in ended.ticks.values()} == {"no answer"}
    assert (ended.status, ended.errors) == (1, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
class TestASignal:
    """Whenever it comes, it ends the run within a second and decides the exit status."""

    def check(self, ended: Run, number: int) -> None:
        name = signal.Signals(number).name
        assert ended.errors == ""
        assert re.fullmatch(rf"\d of 8 connected, interrupted by {name}", ended.result)
        assert ended.status == 128 + number

    def test_at_the_start(self, number: int) -> None:
        process = start()
        self.check(interrupt(process, number, read_until(process, HEAD, 1)), number)

    def test_among_the_attempts(self, number: int) -> None:
        process = start("--never-serve", "--max-retries", "100", "--initial-interval", "0.01")
        self.check(interrupt(process, number, read_until(process, TICK, 20)), number)

    def test_while_all_wait_for_a_tick(self, number: int) -> None:
        process = start(*IN_A_WAIT)
        ended = interrupt(process, number, read_until(process, TICK, 8))
        self.check(ended, number)
        assert ended.endings == dict.fromkeys(EIGHT, "cancelled in the wait for tick 2")

    def test_while_all_wait_for_the_server(self, number: int) -> None:
        process = start(*IN_AN_ATTEMPT)
        ended = interrupt(process, number, read_until(process, UNANSWERED, 8))
        self.check(ended, number)
        for who, ticks in ended.ticks.items():
            assert ticks[-1].outcome == "cancelled"
            assert ended.endings[who] == f"cancelled in the attempt of tick {len(ticks)}"


@pytest.mark.parametrize("options", [IN_A_WAIT, IN_AN_ATTEMPT], ids=["wait", "attempt"])
def test_a_time_out_ends_every_wait_and_every_attempt(options: list[str]) -> None:
    ended = run("--timeout", "0.5", *options)
    assert all(ending.startswith("cancelled in the ") for ending in ended.endings.values())
    assert ended.result == "0 of 8 connected, timed out after 0.5 s"
    assert 0.5 <= ended.seconds < 1.5
    assert (ended.status, ended.errors) == (1, "")


def test_a_time_out_that_is_not_reached_changes_nothing() -> None:
    ended = run("--timeout", "60", *QUICK)
    assert (ended.result, ended.status, ended.errors) == ("8 of 8 connected", 0, "")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "nan"], "--timeout"),
        (["--timeout", "-1"], "--timeout"),
        (["--timeout", "soon"], "--timeout"),
        (["--attempt-timeout", "inf"], "--attempt-timeout"),
        (["--initial-interval", "1e9"], "--initial-interval"),
        (["--max-retries", "-1"], "--max-retries"),
        (["--max-retries", "2.5"], "--max-retries"),
        (["--workers", "many"], "--workers"),
        (["--tasks", "101"], "--tasks"),
        (["--workers", "0", "--tasks", "0"], "--workers"),
        (["--hang", "--never-serve"], "--hang"),
        (["--seed"], "--seed"),
        (["--frobnicate"], "--frobnicate"),
        (["extra"], "extra"),
    ],
    ids=" ".join,
)
def test_a_bad_option_is_told_in_one_line(options: list[str], named: str) -> None:
    check_refusal(start(*options), "reconnect.py", named)


def check_refusal(process: subprocess.Popen[str], program: str, named: str) -> None:
    """See that bad options are told in one line, and nothing else is done."""
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (2, "")
    assert errors.startswith(f"{program}: ")
    assert errors.count("\n") == 1
    assert named in errors


def test_it_ends_quietly_when_nobody_reads_its_output() -> None:
    check_quiet_end(start("--never-serve", *QUICK))


def check_quiet_end(process: subprocess.Popen[str]) -> None:
    """See that it ends without a word when its reader leaves after a line."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.wait(PATIENCE)
    assert (SLOW_CALLBACK.sub("", errors), process.returncode) == ("", 1)


LEFT_OVER = """
import importlib.util, os, sys, threading
spec = importlib.util.spec_from_file_location("example", sys.argv.pop(1))
program = sys.modules["example"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
before = os.listdir("/dev/fd")
program.main()
print([thread.name for thread in threading.enumerate()], os.listdir("/dev/fd") == before)
"""


@pytest.mark.parametrize("options", [[], ["--never-serve", "--max-retries", "2"]])
def test_no_thread_and_no_socket_is_left_over(options: list[str]) -> None:
    done = subprocess.run(
        [*PYTHON, "-c", LEFT_OVER, str(RECONNECT), *options, *QUICK],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=ENVIRONMENT,
        check=False,
    )
    assert SLOW_CALLBACK.sub("", done.stderr) == ""
    assert done.stdout.splitlines()[-1] == "['MainThread'] True"


def imports(tree: ast.AST) -> list[tuple[str, str]]:
    found: list[Any] = [
        node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return [
        (getattr(node, "module", name.name), name.name) for node in found for name in node.names
    ]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_an_example_uses_the_standard_library_and_public_names_only(path: Path) -> None:
    for module, name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        if module == "backoff_ticker":
            assert name in backoff_ticker.__all__
        else:
            assert module.partition(".")[0] in sys.stdlib_module_names
