"""Many tickers fill one channel; threads and a coroutine work it off; one token ends it all.

Each feed is a ticker with an interval of its own. One thread sends the ticks of all of them on a
channel. Workers in threads iterate over it, and so does a coroutine. Ctrl-C, SIGTERM or the end of
``--duration`` cancels one token. With it the tickers end and the channel is closed: what it has
accepted is still worked off, then the workers end by themselves.

    python examples/worker_pool.py                                  # two seconds of work
    python examples/worker_pool.py --duration 60                    # try Ctrl-C
    python examples/worker_pool.py --interval 0.01 --capacity 1     # too much: some is dropped

Exit status: 0 after the duration; 1 nobody reads the output; 2 bad options; 130 after SIGINT,
143 after SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NoReturn

from backoff_ticker import (
    CancellationToken,
    Channel,
    ConstantBackOff,
    Pace,
    Tick,
    Ticker,
    cancel_on_signals,
)

# The feeds and the workers: the part to copy.


@dataclass
class Job:
    """A tick, and whose it is."""

    feed: str
    tick: Tick


@dataclass
class Feed:
    """Where a ticker sends its ticks: the channel of all, under a name.

    It has no ``close()``, so a ticker that ends does not close the channel for the others.
    """

    name: str
    jobs: Channel[Job]

    def put_nowait(self, tick: Tick) -> None:
        """Pass on a tick; if there is no room the ticker drops and counts it."""
        self.jobs.send_nowait(Job(self.name, tick))


@dataclass
class Pool:
    """Those who work the channel off."""

    jobs: Channel[Job]
    seconds: float
    done: list[tuple[str, Job]] = field(default_factory=list)

    def work(self, who: str) -> None:
        """Do one job after the other in a thread until there are no more."""
        for job in self.jobs:
            time.sleep(self.seconds)
            self._report(who, job)

    async def work_async(self, who: str) -> None:
        """Do the same in a coroutine."""
        async for job in self.jobs:
            await asyncio.sleep(self.seconds)
            self._report(who, job)

    def _report(self, who: str, job: Job) -> None:
        self.done.append((who, job))
        tick = job.tick
        missed = f", {tick.missed} missed" if tick.missed else ""
        say(f"{who:<10}{job.feed:<8}{tick.number:>5}{missed}")


_output = threading.Lock()


def say(line: str) -> None:
    """Print a line in one piece, even if other threads print."""
    with _output:
        print(line, flush=True)


# The program.


async def work_off(pool: Pool, token: CancellationToken, workers: int, tasks: int) -> None:
    """Run the workers until the channel is closed and empty."""
    loop = asyncio.get_running_loop()
    threads = [f"thread-{number}" for number in range(1, workers + 1)]
    coroutines = [f"task-{number}" for number in range(1, tasks + 1)]
    # The token is left, and so cancelled, before the executor waits for its threads.
    with ThreadPoolExecutor(max(workers, 1)) as executor, token:
        await asyncio.gather(
            *(loop.run_in_executor(executor, pool.work, who) for who in threads),
            *(pool.work_async(who) for who in coroutines),
        )


def run(options: argparse.Namespace) -> int:
    """Work until it is cancelled, sum up, and return the exit status."""
    with cancel_on_signals() as interrupted:
        started = time.monotonic()
        token = interrupted.child(timeout=options.duration)
        jobs = Channel[Job](options.capacity)
        token.on_cancel(jobs.close)
        handles = []
        for number in range(1, options.feeds + 1):
            interval = ConstantBackOff(options.interval * number)
            ticker = Ticker(interval, token=token, pace=Pace.SKIP)
            handles.append(ticker.send_to(Feed(f"feed-{number}", jobs)))
        say(f"{options.feeds} feeds, {options.workers} threads and {options.tasks} tasks")
        pool = Pool(jobs, options.work)
        asyncio.run(work_off(pool, token, options.workers, options.tasks))

        counts = sorted(Counter(who for who, _ in pool.done).items())
        say("\n" + ", ".join(f"{who} {number}" for who, number in counts))
        dropped = sum(handle.dropped for handle in handles)
        seconds = time.monotonic() - started
        say(f"{len(pool.done)} done, {len(jobs)} left, {dropped} dropped in {seconds:.2f} s")
        if interrupted.cancelled:
            say(f"interrupted by {interrupted.cause}")
            return 128 + signal.Signals[str(interrupted.cause)]
        return 0


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def seconds(text: str) -> float:
    """Read a time from the command line."""
    with contextlib.suppress(ValueError):
        if 0.0 < (value := float(text)) <= 24 * 3600:
            return value
    raise argparse.ArgumentTypeError(f"must be seconds, more than 0 and at most a day: {text!r}")


def count(text: str) -> int:
    """Read a small number from the command line."""
    with contextlib.suppress(ValueError):
        if (value := int(text)) in range(101):
            return value
    raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 100: {text!r}")


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    add = parser.add_argument
    add("--feeds", type=count, default=4, metavar="N", help="tickers (%(default)s)")
    add("--workers", type=count, default=3, metavar="N", help="workers in threads (%(default)s)")
    add("--tasks", type=count, default=1, metavar="N", help="workers in tasks (%(default)s)")
    add("--capacity", type=count, default=20, metavar="N", help="of the channel (%(default)s)")
    add("--interval", type=seconds, default=0.1, metavar="S", help="of feed 1 (%(default)s s)")
    add("--work", type=seconds, default=0.03, metavar="S", help="that a job takes (%(default)s s)")
    add("--duration", type=seconds, default=2.0, metavar="S", help="of it all (%(default)s s)")
    options = parser.parse_args()
    if not options.workers + options.tasks:
        parser.error("with --workers 0 and --tasks 0 there is nobody to work")
    return options


def main() -> int:
    """Run from the command line."""
    options = parse_options()
    try:
        return run(options)
    except BrokenPipeError:  # of the output: its reader left, as in ``| head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
