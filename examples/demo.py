"""One token stops threads and an event loop: start this, watch, and press Ctrl-C.

    python examples/demo.py
    python examples/demo.py --seconds 60

Exit status: 0 after --seconds, 130 after Ctrl-C, 143 after SIGTERM, 1 if the output cannot be
written, 2 for a bad option.
"""

from __future__ import annotations

import os
import signal

if __name__ == "__main__":  # until main() takes over, a signal ends the program at once
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: os._exit(128 + number))

import argparse
import asyncio
import contextlib
import socket
import sys
import threading
import time
from dataclasses import dataclass
from typing import Self

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ExponentialBackOff,
    Outcome,
    Pace,
    Ticker,
    cancel_on_signals,
    retry,
)

INTRODUCTION = """\
One token stops two threads and an event loop, and Ctrl-C cancels it.

A server on this machine is down for 5 s, then up for 5 s, and so on. Four
clients call it, two in threads and two in the event loop. While it is down,
each waits about 0.5 s, then 1 s, then 2 s between its attempts: longer, to
spare a server in trouble, and at random, so that they do not come in a crowd.
"""
HINT = "        Now press Ctrl-C: all clients wait for their next attempt."

POLICY = ExponentialBackOff(0.5, multiplier=2, max_interval=2)  # how long to wait before each retry
PHASE, REST = ConstantBackOff(5), ConstantBackOff(2)  # of the server, of a client


class Demo:
    """A server and its clients, which all wait with the same token."""

    def __init__(self, stop: CancellationToken, screen: Screen) -> None:
        self.stop = stop
        self.screen = screen
        self.has_address = asyncio.Event()

    async def run(self) -> None:
        """Run all of them until the token is cancelled."""
        with self.stop:  # if one of them fails, this cancels the token, and the others end too
            async with asyncio.TaskGroup() as group:
                group.create_task(self.server())
                await self.has_address.wait()
                group.create_task(asyncio.to_thread(self.client, "client-1"))
                group.create_task(asyncio.to_thread(self.client, "client-2"))
                group.create_task(self.client_async("client-3"))
                group.create_task(self.client_async("client-4"))

    def client(self, name: str) -> None:
        """Call the server, rest for 2 s, and so on, in a thread."""
        job = Job(self.screen, name, "thread")

        @retry(POLICY, on=OSError, token=self.stop, on_retry=job.tried, on_success=job.tried)
        def call() -> None:
            with socket.create_connection(self.address, timeout=1) as line:
                line.recv(100)

        with job:
            for _ in Ticker(REST, token=self.stop, pace=Pace.RETURN):
                call()

    async def client_async(self, name: str) -> None:
        """Do the same in an event loop."""
        job = Job(self.screen, name, "event loop")

        @retry(POLICY, on=OSError, token=self.stop, on_retry=job.tried, on_success=job.tried)
        async def call() -> None:
            reader, writer = await asyncio.open_connection(*self.address)
            with contextlib.closing(writer):
                await reader.read(100)

        with job:
            async for _ in AsyncTicker(REST, token=self.stop, pace=Pace.RETURN):
                await call()

    async def server(self) -> None:
        """Be down for 5 s, up for 5 s, and so on."""
        loop = asyncio.get_running_loop()
        with Job(self.screen, "server", "event loop") as job, contextlib.ExitStack() as listening:
            async for tick in AsyncTicker(PHASE, token=self.stop):
                if tick.number % 2:
                    listening.close()
                    listener = listening.enter_context(socket.socket())
                    listener.bind(("127.0.0.1", 0))  # and refuse: it does not listen yet
                    self.address = listener.getsockname()
                    self.has_address.set()
                    job.tell("DOWN", RED, "coming back", 5)
                    loop.call_later(2, self.screen.show, HINT, BOLD)
                else:
                    listener.listen()
                    loop.add_reader(listener, greet, listener)
                    listening.callback(loop.remove_reader, listener)
                    job.tell("up", GREEN, "going down", 5)


def greet(listener: socket.socket) -> None:
    """Answer a client, in the event loop."""
    line, _ = listener.accept()
    with line, contextlib.suppress(OSError):  # the client may be gone
        line.sendall(b"hello")


# What you see.

BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"


class Screen:
    """The output: a line for each event, and at the end a report."""

    def __init__(self, stop: CancellationToken) -> None:
        self.stop = stop
        self.colours = os.isatty(1) and not os.environ.get("NO_COLOR")
        self.started = time.monotonic()
        self.ended: list[Job] = []
        self.lock = threading.Lock()

    def show(self, text: str, colour: str = "") -> None:
        """Print a line, at once and in one piece. If that fails, end the demo."""
        if colour and self.colours:
            text = f"\x1b[{colour}m{text}\x1b[0m"
        with self.lock:
            try:
                print(text, flush=True)
            except OSError:  # nobody reads any more, as after ``| head -1``, or the disk is full
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                self.stop.cancel("no output")

    def report(self, why: str, cancelled: float) -> None:
        """Show what each job waited for, and how long after the cancel it ended."""
        self.show(f"\n{why}. The token is cancelled, and every wait ends:\n", BOLD)
        self.show("who       runs in     was waiting for   due in   ended after", BOLD)
        for job in sorted(self.ended, key=lambda job: job.ended):
            # A thread may end before the callback that noted the time of the cancel.
            due, took = max(job.due - cancelled, 0), max(job.ended - cancelled, 0) * 1000
            self.show(f"{job.name:<10}{job.runs_in:<12}{job.then:<16}{due:>6.2f} s{took:>11.2f} ms")
        self.show(f"\nAll {len(self.ended)} ended within {took:.1f} ms.", BOLD)


@dataclass
class Job:
    """What a client or the server does until the token is cancelled."""

    screen: Screen
    name: str
    runs_in: str
    then: str = "its first turn"
    due: float = 0.0
    ended: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.ended = time.monotonic()
        self.screen.ended.append(self)
        return kind is not None and issubclass(kind, Cancelled)  # which a retry raises

    def tell(self, what: str, colour: str, then: str, after: float) -> None:
        """Show what happened. Remember what comes next, and in how many seconds."""
        now = time.monotonic()
        self.then, self.due = then, now + after
        passed = now - self.screen.started
        self.screen.show(f"{passed:4.1f} s  {self.name:<10}{self.runs_in:<12}{what}", colour)

    def tried(self, outcome: Outcome) -> None:
        """Tell of an attempt: it failed, and a wait follows, or it succeeded."""
        number, delay = outcome.attempts, outcome.delay
        if delay is None:
            self.tell(f"attempt {number} succeeded", GREEN, "the next call", 2)
        else:
            what = f"attempt {number} failed, the next follows in {delay:.2f} s"
            self.tell(what, YELLOW, f"attempt {number + 1}", delay)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=14, help="how long (%(default)s)")
    seconds = parser.parse_args().seconds
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        parser.error("argument --seconds: must be a number more than 0")
    with cancel_on_signals() as signalled:  # Ctrl-C and SIGTERM cancel this token
        cancelled = [time.monotonic() + seconds]
        stop = signalled.child(timeout=seconds)
        stop.on_cancel(lambda: cancelled.append(time.monotonic()))
        screen = Screen(stop)
        screen.show(INTRODUCTION)
        screen.show("  time  who       runs in     what happens", BOLD)
        asyncio.run(Demo(stop, screen).run())
        endings = {"SIGINT": ("Ctrl-C", 130), "SIGTERM": ("SIGTERM", 143), "no output": ("", 1)}
        why, status = endings.get(str(stop.cause), (f"{seconds:g} s have passed", 0))
        screen.report(why, min(cancelled))
    return status


if __name__ == "__main__":
    status = main()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # nothing is left to interrupt but Python's own exit
    sys.exit(status)
