"""Fleets of keys that are polled: by hand, with the package and its peers; and what each costs.

Each measure runs in a process of its own. Lateness is from a key's due time to its poll.
"""

import asyncio
import datetime as dt
import gc
import logging
import math
import threading
import time
from functools import partial

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Schedule,
    Ticker,
    merge,
)
from tests.benchmarks._by_hand import HeapOfALoop, HeapOfThreads
from tests.benchmarks._measures import defined
from tests.benchmarks.memory import resident

RATE = 2_000
"""Polls a second, of all keys together."""
MERGED_RATE = 100
"""Ticks a second of those that one coroutine merges: it takes each by itself."""
WORKERS = 16
WORK = 0.002
"""Seconds that a poll of one of many workers blocks, or awaits."""
SETTLE = 0.3
"""The least seconds between the start and what is measured."""


class Meter:
    """Follows a fleet through its start, a window of seconds in which it polls, and its end."""

    def __init__(self, count, window):
        self.window = window
        self.late = []
        self._count = count
        self._start, self._end = {}, {}
        gc.collect()
        self._resident = resident()
        self._begun = time.monotonic()
        self._cpu = time.process_time()

    def _lap(self):
        used, self._cpu = self._cpu, time.process_time()
        return self._cpu - used

    def started(self):
        """Note that all keys are there."""
        self._start["start ms CPU"] = self._lap() * 1e3
        self._start["B a key"] = (resident() - self._resident) / self._count

    def to_catch_up(self):
        """Return the seconds in which workers poll what fell due while keys were added."""
        return SETTLE + 2.0 * (time.monotonic() - self._begun)

    def sleeps(self, settle):
        """Yield the seconds to sleep: while it settles, and through the window."""
        yield settle
        self.late.clear()
        self._lap()
        yield self.window
        used, late = self._lap(), sorted(self.late.copy())
        self._polls = {}
        if late:
            self._polls["us CPU a poll"] = used / len(late) * 1e6
        self._polls["polls/s"] = len(late) / self.window
        if late and not math.isnan(late[0]):
            self._polls["p50 ms"] = late[len(late) // 2] * 1e3
            self._polls["p99 ms"] = late[len(late) * 99 // 100] * 1e3

    def measure(self, settle, stop):
        """Measure what happens after some seconds, then end it."""
        for seconds in self.sleeps(settle):
            time.sleep(seconds)
        self._stop(stop)

    async def measure_async(self, settle, stop):
        for seconds in self.sleeps(settle):
            await asyncio.sleep(seconds)
        self._stop(stop)

    def _stop(self, call):
        self._lap()
        begun = time.perf_counter()
        call()
        self._end["stop() ms"] = (time.perf_counter() - begun) * 1e3

    def ended(self):
        """Note that no worker runs any more; return all figures."""
        self._end["end ms CPU"] = self._lap() * 1e3
        return self._polls | self._start | self._end


def names_of(count):
    return [f"device-{number}" for number in range(count)]


def settled(count):
    """Return the seconds after which a fleet of ``count`` tasks or tickers has long begun."""
    return SETTLE + count / 5_000


def interval(due):
    """Return the seconds until ``due``, which are also those between the polls of its key.

    Tickers tick at once, and so do other timers. With an interval of its own each key has its
    second poll, the first that counts, at a time that is known, and ``RATE`` keys do in a second.
    """
    return max(due - time.monotonic(), 0.001)


# Few workers.


RUN = """
ASYNC def run(heap, poll):
    while (entry := AWAIT heap.take()) is not None:
        failed = False
        try:
            AWAIT poll(entry.due)
        except OSError:
            failed = True
        heap.give_back(entry, failed=failed)
"""


class HandMade:
    """A heap of threads, or of one event loop."""

    def __init__(self, every, *, in_loop):
        heap = (HeapOfALoop if in_loop else HeapOfThreads)(every)
        self.add_all, self.stop = heap.add_all, heap.stop
        self.run = partial(defined("run", RUN, in_loop), heap)


RUN_JOBS = """
ASYNC def run(schedule, poll):
    ASYNC for job in schedule:
        with job:
            AWAIT poll(job.due)
"""


class Scheduled:
    def __init__(self, every, *, in_loop):
        token = CancellationToken()
        schedule = Schedule(every=every, on=OSError, token=token)
        self.add_all, self.stop = schedule.add_all, token.cancel
        self.run = partial(defined("run", RUN_JOBS, in_loop), schedule)


def in_threads(make, workers, work, count, window):
    """Measure threads that share a fleet, and sleep for ``work`` seconds in each poll."""
    keys, fleet = names_of(count), make(count / RATE, in_loop=False)
    meter = Meter(count, window)
    late = meter.late

    def poll(due):
        late.append(time.monotonic() - due)
        if work:
            time.sleep(work)

    fleet.add_all(keys)
    meter.started()
    threads = [threading.Thread(target=fleet.run, args=(poll,)) for _ in range(workers)]
    for thread in threads:
        thread.start()
    meter.measure(meter.to_catch_up(), fleet.stop)
    for thread in threads:
        thread.join()
    return meter.ended()


def in_coroutines(make, workers, work, count, window):
    """Measure coroutines of one event loop that do so."""

    async def run():
        keys, fleet = names_of(count), make(count / RATE, in_loop=True)
        meter = Meter(count, window)
        late = meter.late

        async def poll(due):
            late.append(time.monotonic() - due)
            if work:
                await asyncio.sleep(work)

        fleet.add_all(keys)
        meter.started()
        tasks = [asyncio.create_task(fleet.run(poll)) for _ in range(workers)]
        await meter.measure_async(meter.to_catch_up(), fleet.stop)
        await asyncio.gather(*tasks)
        return meter.ended()

    return asyncio.run(run())


# A ticker, a task or a job for each key.


class Feed:
    """Puts the ticks of a ticker on the channel that all share, with the name of its key."""

    def __init__(self, key, jobs):
        self._key, self._jobs = key, jobs

    def put_nowait(self, tick):
        self._jobs.send_nowait((self._key, tick))


def forwarded(count, window):
    """Measure a ticker for each key, sent to one channel that threads read."""
    keys = names_of(count)
    meter = Meter(count, window)
    late = meter.late
    token, jobs = CancellationToken(), Channel(math.inf)

    def run():
        for _, tick in jobs:
            if tick.number > 1:
                late.append(time.monotonic() - tick.due)
                time.sleep(WORK)

    threads = [threading.Thread(target=run) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    first = time.monotonic() + settled(count)
    for number, key in enumerate(keys):
        policy = ConstantBackOff(interval(first + number / RATE))
        Ticker(policy, token=token).send_to(Feed(key, jobs))
    meter.started()
    meter.measure(interval(first), token.cancel)
    jobs.close()
    for thread in threads:
        thread.join()
    return meter.ended()


async def sleeps(due, late):
    wait = interval(due)
    while True:
        await asyncio.sleep(wait)
        now = time.monotonic()
        late.append(now - due)
        due = now + wait


async def ticks(due, late, token=None):
    async for tick in AsyncTicker(ConstantBackOff(interval(due)), token=token):
        if tick.number > 1:
            late.append(time.monotonic() - tick.due)


def in_tasks(start, count, window, *, by_token=False):
    """Measure a task for each key in one event loop, ended by a token or each by a cancel."""

    async def run():
        token = CancellationToken()
        options = {"token": token} if by_token else {}
        meter = Meter(count, window)
        first = time.monotonic() + settled(count)
        tasks = [
            asyncio.ensure_future(start(first + number / RATE, meter.late, **options))
            for number in range(count)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        meter.started()

        def cancel_all():
            for task in tasks:
                task.cancel()

        await meter.measure_async(interval(first), token.cancel if by_token else cancel_all)
        await asyncio.gather(*tasks, return_exceptions=True)
        return meter.ended()

    return asyncio.run(run())


def aiotools_in_loop(count, window):
    from aiotools import create_timer

    def start(due, late):
        async def poll(_):
            if time.monotonic() > due - SETTLE / 2:  # not the first, which is made at once
                late.append(math.nan)  # there is no telling when it was due

        return create_timer(poll, interval(due))

    return in_tasks(start, count, window)


def merged(count, window):
    """Measure one coroutine that reads a ticker for each key."""

    async def read(tickers, late):
        async for _, tick in merge(*tickers):
            if tick is not CLOSED:
                late.append(time.monotonic() - tick.due)

    async def run():
        meter = Meter(count, window)
        token = CancellationToken()
        first = time.monotonic() + SETTLE + window  # no ticker has two ticks in the window
        tickers = []
        for number in range(count):
            policy = ConstantBackOff(interval(first + number / MERGED_RATE))
            tickers.append(AsyncTicker(policy, token=token))
            tickers[-1].receive_nowait()
        reader = asyncio.create_task(read(tickers, meter.late))
        await asyncio.sleep(0)
        meter.started()
        await meter.measure_async(interval(first), token.cancel)
        await reader
        return meter.ended()

    return asyncio.run(run())


def _add_jobs(scheduler, poll, count):
    """Add a job of APScheduler for each key; return when the first falls due."""
    scheduler.start(paused=True)
    wait, every = settled(count), count / RATE
    now, first = dt.datetime.now(dt.UTC), time.monotonic() + wait
    for number, key in enumerate(names_of(count)):
        offset = number / RATE
        scheduler.add_job(
            poll,
            "interval",
            [first + offset, every],
            seconds=every,
            id=key,
            next_run_time=now + dt.timedelta(seconds=wait + offset),
            misfire_grace_time=None,
        )
    scheduler.resume()
    return first


def _late_job(first, every):
    """Return how late a job is, if it is less than the time between two."""
    return (time.monotonic() - first) % every


def apscheduler_in_threads(count, window):
    from apscheduler.executors.pool import ThreadPoolExecutor
    from apscheduler.schedulers.background import BackgroundScheduler

    meter = Meter(count, window)
    executors = {"default": ThreadPoolExecutor(WORKERS)}
    scheduler = BackgroundScheduler(executors=executors, timezone=dt.UTC)

    def poll(first, every):
        meter.late.append(_late_job(first, every))
        time.sleep(WORK)

    first = _add_jobs(scheduler, poll, count)
    meter.started()
    meter.measure(interval(first), scheduler.shutdown)
    return meter.ended()


def apscheduler_in_loop(count, window):
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    async def run():
        meter = Meter(count, window)
        scheduler = AsyncIOScheduler(timezone=dt.UTC)

        async def poll(first, every):
            meter.late.append(_late_job(first, every))

        first = _add_jobs(scheduler, poll, count)
        meter.started()
        await meter.measure_async(interval(first), scheduler.shutdown)
        await asyncio.sleep(0)
        return meter.ended()

    return asyncio.run(run())


# What is measured, each with the most keys that it is given.

HAND, SCHEDULE = "heap by hand", "Schedule"
APSCHEDULER, AIOTOOLS = "APScheduler", "aiotools.create_timer"
PACKAGES = {APSCHEDULER: "apscheduler", AIOTOOLS: "aiotools"}
ANY, MANY = 1_000_000, 100_000


def beside_hand(workers, work, *, in_loop=False):
    """Return a schedule and what it is beside, measured with so many workers."""
    measure = in_coroutines if in_loop else in_threads
    return {
        HAND: (ANY, partial(measure, HandMade, workers, work)),
        SCHEDULE: (ANY, partial(measure, Scheduled, workers, work)),
    }


FLEETS = {
    "threads": {
        **beside_hand(WORKERS, WORK),
        "Ticker.send_to, one channel": (MANY, forwarded),
        APSCHEDULER: (MANY, apscheduler_in_threads),
    },
    "thread": beside_hand(1, 0.0),
    "coroutines": beside_hand(WORKERS, WORK, in_loop=True),
    "loop": {
        **beside_hand(1, 0.0, in_loop=True),
        AIOTOOLS: (MANY, aiotools_in_loop),
        APSCHEDULER: (MANY, apscheduler_in_loop),
    },
    "tickers": {
        "task + asyncio.sleep": (MANY, partial(in_tasks, sleeps)),
        "task + AsyncTicker": (MANY, partial(in_tasks, ticks)),
        "task + AsyncTicker(token=)": (MANY, partial(in_tasks, ticks, by_token=True)),
    },
    "merge": {"merge()": (ANY, merged)},
}


def measure(fleet, subject, count, window):
    """Return what a subject of a fleet costs; called in a process of its own."""
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # it warns of each job it skips
    return FLEETS[fleet][subject][1](count, window)
