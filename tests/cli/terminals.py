"""Runs the real ``run`` on a terminal, without a shell, under one, or orphaned."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.cli.running import Reader, Running, talks
from tests.helpers import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

CTRL_C, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x1a", b"\x1c"

ASKS = """
with open("/dev/tty") as tty:
    tell("ready %d\\n" % os.getpgrp())
    print("got", tty.readline().strip(), flush=True)
"""
"""Reads a line from the terminal, and says it."""

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

LEADER = """
import fcntl, os, signal, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if os.fork() == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    tell = int(os.environ["TELL"])
    status = subprocess.run(sys.argv[1:], pass_fds=[tell]).returncode
    os.write(tell, b"status %d\\n" % status)
    os._exit(0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.wait()
"""
"""Runs it in its own process group, as a shell that reads a script; ends as its terminal does."""

CONTROLLING = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"


class Screen(Reader):
    """A terminal, seen from the side of who sits before it."""

    def __init__(self) -> None:
        master, self.slave = os.openpty()
        super().__init__(master)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))

    def type(self, text: bytes) -> None:
        """Type on its keyboard."""
        os.write(self.descriptor, text)

    def close(self) -> None:
        """Hang up: the terminal is gone."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self.descriptor)
        os.close(nowhere)

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


def command_in_front(running: Running, screen: Screen) -> int:
    """Wait until the command runs and has the terminal; return its group."""
    group = int(running.until(r"ready (\d+)\n")[1])
    eventually(lambda: screen.foreground() == group, "the command's turn")
    return group


@contextmanager
def talking_on_terminal(script: str, **options: Any) -> Iterator[tuple[Running, Screen]]:
    """Run a command that ``talks`` on a new terminal, and begin once the command has it."""
    with on_terminal(*talks(script), **options) as (running, screen):
        command_in_front(running, screen)
        yield running, screen


@contextmanager
def talking_under_shell(script: str, **options: Any) -> Iterator[tuple[Running, Screen, Shell]]:
    """Run a command that ``talks`` as a job of a shell, and begin once it has the terminal."""
    with under_shell("foreground", *talks(script), **options) as (running, screen, shell):
        command_in_front(running, screen)
        yield running, screen, shell


@contextmanager
def orphaned(script: str, **options: Any) -> Iterator[tuple[Running, Screen]]:
    """Run a command that ``talks`` in the background, where nobody can bring it to the front."""
    how = {"before": (sys.executable, "-c", ORPHANAGE), "prelude": ""}
    with on_terminal(*talks(script), how=how, **options) as (running, screen):
        yield running, screen


def answer(screen: Screen) -> None:
    """Type what ``ASKS`` asks for, and wait until it is said."""
    screen.type(b"hello\n")
    screen.until("got hello")


def suspend(screen: Screen, shell: Shell) -> None:
    """Type Ctrl-Z, and wait until it has stopped the run."""
    screen.type(CTRL_Z)
    assert shell.stopped() == signal.SIGTSTP
