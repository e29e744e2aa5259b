"""Sleeps a second on the virtual clock, by threads and by coroutines, beside looptime's.

looptime drives an event loop, and knows of no thread. Run as
``python -m tests.benchmarks.virtual_time`` from the project's root.
"""

import asyncio
from functools import partial

from backoff_ticker.testing import VirtualClock
from tests.benchmarks._measures import rate
from tests.benchmarks._table import compare, is_installed, options


def in_thread(sleeps):
    with VirtualClock(auto=True) as clock:

        def work():
            for _ in range(sleeps):
                clock.sleep(1)

        return rate(sleeps, lambda: clock.spawn(work).join(), "sleep")


async def _sleepers(tasks, turns):
    async def work():
        for _ in range(turns):
            await asyncio.sleep(1)

    await asyncio.gather(*(work() for _ in range(tasks)))


def in_tasks(tasks, sleeps):
    turns = sleeps // tasks
    with VirtualClock(auto=True):
        return rate(turns * tasks, lambda: asyncio.run(_sleepers(tasks, turns)), "sleep")


def on_looptime(tasks, sleeps):
    turns = sleeps // tasks

    def run():
        with asyncio.Runner(loop_factory=_looptime_loop) as runner:
            runner.run(_sleepers(tasks, turns))

    return rate(turns * tasks, run, "sleep")


def _looptime_loop():
    import looptime

    loop = looptime.new_event_loop()
    loop.setup_looptime(_enabled=True)
    return loop


def main():
    chosen = options(__doc__, rounds=5)
    sleeps = 200 if chosen.quick else 20_000
    has_looptime = is_installed("looptime")
    for tasks in (1, 10, 100, 1000):
        count = max(sleeps, tasks)
        theirs = {"looptime": partial(on_looptime, tasks, count)} if has_looptime else {}
        subjects = {**theirs, "VirtualClock": partial(in_tasks, tasks, count)}
        compare(f"{tasks} coroutines", subjects, chosen.rounds)
    subjects = {"a coroutine": partial(in_tasks, 1, sleeps), "a thread": partial(in_thread, sleeps)}
    compare("one on the VirtualClock", subjects, chosen.rounds)


if __name__ == "__main__":
    main()
