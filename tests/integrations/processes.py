"""Programs made of the blocks of a page, in processes of their own."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import fork, python

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how_to"
FILE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE = 30.0

REPORT_WAITS = """\
from backoff_ticker import configure

configure(on_retry=lambda outcome: print("waits", flush=True))
"""
"""What lets a program say that a retry waits now."""


def write_files(page, folder):
    """Write each block of a page, by its path or how-to, that begins with a file's name there."""
    for name, code in FILE.findall((HOW_TO / page).read_text("utf-8")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, "utf-8")


def run(script, **environment):
    """Run a Python script that says nothing on stderr; return the lines that it prints."""
    done = python("-c", script, cwd=ROOT, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@contextmanager
def forked(check):
    """Fork a child, which is to find ``check()`` true; the end of the block waits for it."""
    child = fork(check)
    yield
    assert os.waitpid(child, 0)[1] == 0


class Process:
    """A Python program in a group of its own, whose lines are collected as they come."""

    def __init__(self, folder, *arguments, env=()):
        self.lines = []
        self._has_ended = False
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": f"{folder}:{ROOT}",
                "PYTHONUNBUFFERED": "1",
                **dict(env),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    @property
    def has_ended(self):
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def count(self, text):
        """Return how often a text was printed; lines of several processes may have become one."""
        return "\n".join(self.lines).count(text)

    def wait_for(self, text, times=1):
        """Wait until a text was printed so many times."""
        with self._news:
            self._news.wait_for(lambda: self._has_ended or self.count(text) >= times, PATIENCE)
        assert self.count(text) >= times, (text, self.lines)

    def wait(self):
        """Wait until it has ended, and return its status."""
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.lines) from None
        self._reader.join(PATIENCE)
        return status

    def stop(self, number=signal.SIGTERM):
        """Send a signal to the main process; return its status, and the seconds it has taken."""
        started = time.monotonic()
        self._process.send_signal(number)
        status = self.wait()
        return status, time.monotonic() - started

    def kill(self):
        """Kill it, and all processes that it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def __enter__(self):
        """Return it."""
        return self

    def __exit__(self, *_):
        """Leave nothing of it behind."""
        self.kill()
        self._reader.join()
        self._process.stdout.close()
