"""Runs the real ``run`` on a terminal, without a shell or as a job of one."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.cli.running import Reader, Running

if TYPE_CHECKING:
    from collections.abc import Iterator

CTRL_C, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x1a", b"\x1c"

ASKS = """
with open("/dev/tty") as tty:
    tell("asks\\n")
    print("got", tty.readline().strip(), flush=True)
"""
"""Reads a line from the terminal, and says it."""

CONTROLLING = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"

SHELL = f"""
import os, signal, subprocess, sys
{CONTROLLING}
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
go, went = os.pipe()
asked, told = int(os.environ["ASKED"]), int(os.environ["TOLD"])
job = subprocess.Popen(
    sys.argv[1:], process_group=0, pass_fds=(go, int(os.environ["TELL"])),
    env={{**os.environ, "GO": str(go)}},
)
os.tcsetpgrp(0, job.pid)
os.write(went, b"!")
while True:
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    os.tcsetpgrp(0, os.getpgrp())
    os.write(told, b"stopped %d\\n" % os.WSTOPSIG(status))
    if os.read(asked, 100) == b"foreground":
        os.tcsetpgrp(0, job.pid)
    os.killpg(job.pid, signal.SIGCONT)
os.tcsetpgrp(0, os.getpgrp())
job.returncode = os.waitstatus_to_exitcode(status)
sys.exit(job.returncode)
"""

LEADER = f"""
import os, signal, subprocess, sys
{CONTROLLING}
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
    how = {**how, "prelude": CONTROLLING, **options.pop("how", {})}
    try:
        with Running(*command, how=how, **options) as running:
            os.close(screen.slave)
            yield running, screen
    finally:
        os.close(screen.descriptor)


@contextmanager
def under_shell(*command: str, **options: Any) -> Iterator[tuple[Running, Screen, Shell]]:
    """Run as a job of a shell, in the foreground of a new terminal."""
    told, tells = os.pipe()
    asked, asks = os.pipe()
    how = {"before": (sys.executable, "-c", SHELL), "also": {"TOLD": tells, "ASKED": asked}}
    how["prelude"] = ""
    try:
        with on_terminal(*command, how=how, go=True, **options) as (running, screen):
            os.close(tells)
            os.close(asked)
            yield running, screen, Shell(told, asks)
    finally:
        os.close(told)
        os.close(asks)


def answer(running: Running, screen: Screen) -> None:
    """Wait until ``ASKS`` asks, type what it asks for, and wait until it is said."""
    running.until("asks")
    screen.type(b"hello\n")
    screen.until("got hello")
