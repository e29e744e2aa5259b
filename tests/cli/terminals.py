"""Runs the real ``run`` on a terminal, without a shell or as a job of one."""

import fcntl
import os
import struct
import termios
from contextlib import contextmanager

from tests.cli.running import Reader, Running

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
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU, signal.SIGUSR1])
go, went = os.pipe()
tell = int(os.environ["TELL"])
job = subprocess.Popen(
    sys.argv[1:], process_group=0, pass_fds=(go, tell), env={{**os.environ, "GO": str(go)}}
)
os.tcsetpgrp(0, job.pid)
os.write(went, b"!")
_, status = os.waitpid(job.pid, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
os.write(tell, b"stopped %d\\n" % os.WSTOPSIG(status))
signal.sigwait([signal.SIGUSR1])
os.tcsetpgrp(0, job.pid)
os.killpg(job.pid, signal.SIGCONT)
sys.exit(job.wait())
"""
"""Runs it as a job in the foreground; once that has stopped, SIGUSR1 continues it there."""

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

    def __init__(self):
        master, self.slave = os.openpty()
        super().__init__(master)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))

    def type(self, text):
        """Type on its keyboard."""
        os.write(self.descriptor, text)

    def close(self):
        """Hang up: the terminal is gone."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self.descriptor)
        os.close(nowhere)


@contextmanager
def on_terminal(*command, **options):
    """Run on a new terminal, which is the controlling one; without a shell."""
    screen = Screen()
    streams = dict.fromkeys(["stdin", "stdout", "stderr"], screen.slave)
    try:
        with Running(*command, **{**streams, "prelude": CONTROLLING, **options}) as running:
            os.close(screen.slave)
            yield running, screen
    finally:
        os.close(screen.descriptor)


def answer(running, screen):
    """Wait until ``ASKS`` asks, type what it asks for, and wait until it is said."""
    running.until("asks")
    screen.type(b"hello\n")
    screen.until("got hello")
