"""Runs the real ``run`` in a process of its own, as the command would.

Commands tell what they do through a pipe that they inherit as descriptor 9. Everybody
who runs holds it open, so its end tells that nobody is left. They may wait for a line on another
one, whose number is in ``GO``.
"""

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress

from tests.cli.calling import environment, words_of
from tests.helpers import PATIENCE

SOON = 0.05
"""Seconds: a time limit that a test wants to be reached."""

RUNNER = """
import json, os, signal, sys
options = json.loads(sys.argv[1])
if options["go"]:
    os.read(int(os.environ["GO"]), 1)
os.dup2(int(os.environ["TELL"]), 9)
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGCHLD"):
    number = getattr(signal, name)
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN if number in options["ignored"] else default)
signal.pthread_sigmask(signal.SIG_SETMASK, options["blocked"])

from backoff_ticker.cli import _process, main
_process.GRACE = options["grace"]
sys.argv = ["backoff-ticker", "run", *options["words"], "--", *sys.argv[2:]]
sys.exit(main())
"""

OF_RUNNER = {"go": False, "ignored": (), "blocked": (), "grace": 30.0}
STREAMS = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


class Reader:
    """Reads a descriptor until what it waits for has come."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.seen = b""
        self.ended = False

    def _more(self, end):
        """Read what comes next, or the end; return whether either has come in time."""
        left = max(0.0, end - time.monotonic())
        if self.ended or not select.select([self.descriptor], [], [], left)[0]:
            return False
        try:
            part = os.read(self.descriptor, 65_536)
        except OSError:  # a terminal that nobody has open any more
            part = b""
        self.ended = not part
        self.seen += part
        return True

    def until(self, text):
        """Wait until ``text``, a regular expression, comes; forget everything up to its end."""
        end = time.monotonic() + PATIENCE
        while (match := re.search(text.encode(), self.seen)) is None:
            assert self._more(end), f"{text!r} does not come after {self.seen!r}"
        self.seen = self.seen[match.end() :]
        return match

    def rest(self):
        """Wait until nobody writes any more; return what has come."""
        assert self.at_end(PATIENCE), f"more may come after {self.seen!r}"
        return self.seen

    def at_end(self, patience):
        """Whether nobody can write any more, at the latest after so many seconds."""
        end = time.monotonic() + patience
        while self._more(end):
            pass
        return self.ended


TALKS = """
import os, signal, time
def tell(text):
    os.write(9, text.encode())
def waits():
    os.read(int(os.environ["GO"]), 1)
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
def rests_and_is_stopped():
    tell("ready\\n")
    os.kill(os.getpid(), signal.SIGSTOP)
def rests_in_the_background(*ignored):
    os.fork() or rests(*ignored)
"""


def talks(script):
    """Return a command in Python: it tells what it does, and no signal comes too early for it.

    A shell loses some while it starts a process, and a handler in Python may come too late for a
    wait that has just begun.
    """
    return sys.executable, "-I", "-S", "-c", TALKS + script


def unread(stream):
    """Return how many bytes are in a pipe."""
    count = fcntl.ioctl(stream, termios.FIONREAD, struct.pack("i", 0))
    return struct.unpack("i", count)[0]


def state(process):
    """Return what ``ps`` says of a process: T stopped, Z dead, nothing if it is gone."""
    command = ["ps", "-o", "stat=", "-p", str(process)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def end_session(session):
    """Kill all processes of a session that is not the test's own, also those that fork."""
    command = ["ps", "-A", "-o", "sid=,pid=,stat="]
    while True:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = (line.split() for line in listed.splitlines())
        left = [int(pid) for sid, pid, stat in rows if int(sid) == session and stat[0] != "Z"]
        if not left:
            return
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


class Running:
    """A run under way.

    Args:
        command: What it runs.
        before: The words of a command that is given the one of Python.
        prelude: What Python does first.
        options: Of the command ``run``, where ``delay`` is that of its policy; ``OF_RUNNER``,
            ``STREAMS``, and variables of the environment, in capitals.
    """

    def __init__(self, *command, before=(), prelude="", **options):
        own = {name: options.pop(name, usual) for name, usual in OF_RUNNER.items()}
        streams = {name: options.pop(name, usual) for name, usual in STREAMS.items()}
        self.tell, tell = os.pipe()
        self.told = Reader(self.tell)
        go, self._go = os.pipe()
        variables = {"TERM": "xterm", "TELL": str(tell), "GO": str(go)}
        variables |= {name: options.pop(name) for name in [*options] if name.isupper()}
        own["words"] = words_of(options)
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", prelude + RUNNER, json.dumps(own), *command],
            env=environment(**variables),
            pass_fds=(tell, go),
            bufsize=0,
            start_new_session=True,  # without a terminal
            **streams,
        )
        os.close(tell)
        os.close(go)
        out, err = self.process.stdout, self.process.stderr
        self.out = Reader(out.fileno()) if out else None
        self.err = Reader(err.fileno()) if err else None

    def until(self, text):
        """Wait until the command has told ``text``."""
        return self.told.until(text)

    def go(self):
        """Send the line that the command waits for."""
        os.write(self._go, b"\n")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Wait for its exit status."""
        return self.process.wait(PATIENCE)

    def finish(self):
        """Wait for its exit status, and for all of its stdout and stderr."""
        out = self.out.rest().decode() if self.out else ""
        err = self.err.rest().decode() if self.err else ""
        return self.wait(), out, err

    def nobody_left(self, patience=PATIENCE):
        """Whether neither the run nor any process it started is there.

        Those that were killed may still be ending, as those that end by themselves are not.
        """
        return self.told.at_end(patience)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """End it, whatever the test did."""
        self.process.kill()
        self.process.wait()
        end_session(self.process.pid)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        os.close(self.tell)
        os.close(self._go)


def lines(*texts):
    """Return what the run says on stderr, a line for each text."""
    return "".join(f"backoff-ticker: {text}\n" for text in texts)


def shell(script, *args, **options):
    """Run a script of the shell, with arguments from ``$1`` on."""
    return Running("sh", "-c", script, "sh", *args, **options)
