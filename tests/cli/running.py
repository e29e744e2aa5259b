"""Runs the real ``run`` in a process of its own, as the command would, with or without a terminal.

Commands tell what they do through a pipe that they inherit as descriptor 9. Everybody
who runs holds it open, so its end tells that nobody is left.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.helpers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SOON = 0.05
"""Seconds: a time-out that a test wants to pass."""

RUNNER = """
import json, os, re, signal, sys
options = json.loads(sys.argv[1])
if options.pop("go", False):
    os.read(int(os.environ["GO"]), 1)
os.dup2(int(os.environ["TELL"]), 9)
ignored = options.pop("ignored", [])
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGCHLD"):
    number = getattr(signal, name)
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN if number in ignored else default)
signal.pthread_sigmask(signal.SIG_SETMASK, options.pop("blocked", []))

from backoff_ticker import ConstantBackOff, with_max_retries
from backoff_ticker.cli._run import run

backoff = ConstantBackOff(options.pop("delay", 0))
retries = options.pop("retries", None)
if retries is not None:
    backoff = with_max_retries(backoff, retries)
if "on_exit_code" in options:
    options["on_exit_code"] = frozenset(options["on_exit_code"])
if "until_output" in options:
    options["until_output"] = re.compile(options["until_output"])
if "until_bytes" in options:
    options["until_output"] = re.compile(options.pop("until_bytes").encode())
sys.exit(run(sys.argv[2:], backoff, **{"grace": 30.0, **options}))
"""

SHELL = """
import os, signal, subprocess, sys, termios, fcntl
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
go, went = os.pipe()
asked, told = int(os.environ["ASKED"]), int(os.environ["TOLD"])
job = subprocess.Popen(
    sys.argv[1:], process_group=0, pass_fds=(go, int(os.environ["TELL"])),
    env={**os.environ, "GO": str(go)},
)
def foreground(group):
    os.tcsetpgrp(0, group)
if os.environ["PLACE"] == "foreground":
    foreground(job.pid)
os.write(went, b"!")
while True:
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    foreground(os.getpgrp())
    os.write(told, b"stopped %d\\n" % os.WSTOPSIG(status))
    word = os.read(asked, 100)
    if word == b"foreground":
        foreground(job.pid)
    os.killpg(job.pid, signal.SIGCONT)
os.write(told, b"its turn\\n" if os.tcgetpgrp(0) == job.pid else b"not its turn\\n")
foreground(os.getpgrp())
job.returncode = os.waitstatus_to_exitcode(status)
sys.exit(job.returncode)
"""

ORPHANAGE = """
import fcntl, os, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
read, write = os.pipe()
if os.fork() == 0:
    subprocess.Popen(sys.argv[1:], process_group=0, pass_fds=(write, int(os.environ["TELL"])))
    os._exit(0)
os.close(write)
os.wait()
os.read(read, 1)
"""

CONTROLLING = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"


class Reader:
    """Reads a descriptor until what it waits for has come."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.seen = b""
        self.ended = False

    def _more(self, end: float) -> None:
        assert select.select([self.descriptor], [], [], max(0.0, end - time.monotonic()))[0], (
            f"nothing came after {self.seen!r}"
        )
        try:
            part = os.read(self.descriptor, 65_536)
        except OSError:  # a terminal that nobody has open any more
            part = b""
        self.ended = not part
        self.seen += part

    def until(self, text: str) -> re.Match[bytes]:
        """Wait until ``text``, a regular expression, comes; forget everything up to its end."""
        end = time.monotonic() + PATIENCE
        while (match := re.search(text.encode(), self.seen)) is None:
            assert not self.ended, f"{text!r} does not come after {self.seen!r}"
            self._more(end)
        self.seen = self.seen[match.end() :]
        return match

    def rest(self) -> bytes:
        """Wait until nobody writes any more; return what has come."""
        end = time.monotonic() + PATIENCE
        while not self.ended:
            self._more(end)
        return self.seen

    def at_end(self) -> bool:
        """Whether nobody can write any more at this moment."""
        while not self.ended and select.select([self.descriptor], [], [], 0)[0]:
            self._more(time.monotonic())
        return self.ended


TALKS = """
import os, signal, time
def tell(text):
    os.write(9, text.encode())
def hears(*numbers):
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    tell("ready %d\\n" % os.getpgrp())
    return lambda: signal.sigwait(numbers)
def rests(*ignored):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    tell("ready %d\\n" % os.getpgrp())
    while True:
        signal.pause()
def rests_in_the_background(*ignored):
    os.fork() or rests(*ignored)
"""


def talks(script: str) -> tuple[str, ...]:
    """Return a command in Python: it tells what it does, and no signal comes too early for it.

    A shell loses some while it starts a process, and a handler in Python may come too late for a
    wait that has just begun.
    """
    return sys.executable, "-I", "-S", "-c", TALKS + script


def state(process: str) -> str:
    """Return what ``ps`` says of a process: T stopped, Z dead, nothing if it is gone."""
    command = ["ps", "-o", "stat=", "-p", process]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def children(running: Running) -> list[str]:
    """Return the numbers of the processes that the run has at this moment, helpers included."""
    command = ["ps", "-A", "-o", "ppid=,pid="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pairs = (line.split() for line in listed.splitlines())
    return [child for parent, child in pairs if int(parent) == running.process.pid]


class Running:
    """A run under way.

    Args:
        command: What it runs.
        options: Of ``run``; ``delay`` and ``retries`` make its policy.
        how: Of ``subprocess.Popen``.
    """

    def __init__(self, *command: str, how: dict[str, Any] | None = None, **options: Any) -> None:
        self.tell, tell = os.pipe()
        self.told = Reader(self.tell)
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "bufsize": 0, **(how or {})}
        how.setdefault("stderr", subprocess.PIPE)
        prelude = how.pop("prelude", "")
        before = how.pop("before", ())
        also = how.pop("also", {})
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm",
            "TELL": str(tell),
            **{name: str(value) for name, value in also.items()},
        }
        environment.pop("NO_COLOR", None)
        descriptors = (tell, *(value for value in also.values() if isinstance(value, int)))
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", prelude + RUNNER, json.dumps(options), *command],
            env=environment,
            pass_fds=descriptors,
            **how,
        )
        os.close(tell)
        out, err = self.process.stdout, self.process.stderr
        self.out = Reader(out.fileno()) if out else None
        self.err = Reader(err.fileno()) if err else None

    def until(self, text: str) -> re.Match[bytes]:
        """Wait until the command has told ``text``."""
        return self.told.until(text)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for its exit status."""
        return self.process.wait(PATIENCE)

    def finish(self) -> tuple[int, str, str]:
        """Wait for its exit status, and for all of its stdout and stderr."""
        out = self.out.rest().decode() if self.out else ""
        err = self.err.rest().decode() if self.err else ""
        return self.wait(), out, err

    def nobody_left(self) -> bool:
        """Whether neither the run nor any process it started is there."""
        return self.told.at_end()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, whatever the test did."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        os.close(self.tell)


class Screen(Reader):
    """A terminal, seen from the side of who sits before it."""

    def __init__(self) -> None:
        master, self.slave = os.openpty()
        super().__init__(master)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))

    def type(self, text: bytes) -> None:
        """Type on its keyboard."""
        os.write(self.descriptor, text)

    def foreground(self) -> int:
        """Return the process group that has the terminal."""
        return os.tcgetpgrp(self.descriptor)


class Shell:
    """Talks to the shell that has started the run."""

    def __init__(self, told: int, asks: int) -> None:
        self.told = Reader(told)
        self._asks = asks

    def stopped(self) -> int:
        """Wait until the run has stopped; return the signal that did it."""
        return int(self.told.until(r"stopped (\d+)\n")[1])

    def resume(self, place: str) -> None:
        """Continue it in the foreground or in the background."""
        os.write(self._asks, place.encode())


@contextmanager
def on_terminal(*command: str, **options: Any) -> Iterator[tuple[Running, Screen]]:
    """Run on a new terminal, which is the controlling one; without a shell."""
    screen = Screen()
    how = {"stdin": screen.slave, "stdout": screen.slave, "stderr": screen.slave}
    how = {**how, "start_new_session": True, "prelude": CONTROLLING, **options.pop("how", {})}
    try:
        with Running(*command, how=how, **options) as running:
            os.close(screen.slave)
            yield running, screen
    finally:
        os.close(screen.descriptor)


@contextmanager
def under_shell(
    place: str, *command: str, **options: Any
) -> Iterator[tuple[Running, Screen, Shell]]:
    """Run as a job of a shell, in the ``foreground`` or the ``background`` of a new terminal."""
    told, tells = os.pipe()
    asked, asks = os.pipe()
    also = {"PLACE": place, "TOLD": tells, "ASKED": asked}
    how = {"before": (sys.executable, "-c", SHELL), "also": also, "prelude": ""}
    how = {**how, **options.pop("how", {})}
    try:
        with on_terminal(*command, how=how, go=True, **options) as (running, screen):
            os.close(tells)
            os.close(asked)
            yield running, screen, Shell(told, asks)
    finally:
        os.close(told)
        os.close(asks)
