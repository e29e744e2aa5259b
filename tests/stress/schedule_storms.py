"""Storms over schedules: a key is with one worker at a time, none is lost, nobody sleeps on."""

import asyncio
import warnings
from contextlib import suppress
from functools import partial
from random import Random

from backoff_ticker import ConstantBackOff, Schedule, ScheduleClosed
from tests.schedules.workers import reopen
from tests.stress.crew import cancel_soon, cast

STEADY = 24
"""Keys that never leave; as many others come and go."""

JOBS = 600
LATE = 5.0
"""Seconds that no key is late on any machine, where workers only wait for keys."""


class Fleet:
    """A schedule, its workers, and what they do; whoever waits does so for as long as it takes."""

    def __init__(self, draw):
        limit = draw.choice([None, 1, 3])
        self.schedule = Schedule(
            every=draw.choice([None, 1e-3]),
            backoff=ConstantBackOff(draw.choice([0.0, 1e-4])),
            notify=lambda *_: None,
            group=None if limit is None else lambda key: key % 4,
            limit=limit,
        )
        self.at_work = {}  # who has a key
        self.done = []  # one entry for each job that has ended
        self.schedule.add_all(range(STEADY), over=0)

    async def work(self, face, *, draw):
        schedule = self.schedule
        while True:
            try:
                if face.in_loop and draw.random() < 0.1:
                    job = await cancel_soon(schedule.receive_async(), draw.randrange(4))
                else:
                    job = await face.wait(schedule.receive, schedule.receive_async)
            except asyncio.CancelledError:
                continue
            except ScheduleClosed:
                return
            me = object()
            assert self.at_work.setdefault(job.key, me) is me, "two workers have a key"
            assert job.lateness < LATE, "a key was forgotten"
            if draw.random() < 0.2:
                await face.give_way()
            with suppress(KeyboardInterrupt, ValueError):
                self.end(job, draw)
            job = None  # it may be one to be dropped
            self.done.append(None)
            if len(self.done) >= JOBS:
                schedule.close()

    def end(self, job, draw):
        """End a job in some way, after which the key may come again."""
        how = draw.randrange(8)
        if how == 0:
            del self.at_work[job.key]
            return  # it is dropped
        with job:
            del self.at_work[job.key]
            if how == 1:
                raise OSError
            if how == 2:
                raise KeyboardInterrupt
            if how == 3 and job.key >= STEADY:
                job.leave()
            elif how <= 5 or (job.key < STEADY and not self.schedule._every):
                job.retry_in(0)

    async def meddle(self, face, *, draw):
        """Add and remove keys until it ends."""
        with suppress(ScheduleClosed):
            while True:
                key = draw.randrange(2 * STEADY)
                if key >= STEADY and draw.random() < 0.5:
                    self.schedule.remove(key)
                else:
                    self.schedule.add(key, draw.choice([0, 1e-4]))
                if draw.random() < 0.5:
                    self.schedule.add_all(range(STEADY, STEADY + 4), over=1e-3)
                await face.give_way()

    def check(self):
        """All keys wait, each where it is found as it falls due."""
        schedule, keys = self.schedule, self.schedule._keys
        with suppress(ScheduleClosed):
            reopen(schedule)
            while keys.dropped:
                schedule.receive(0).retry_in(0)
        assert schedule.drain(0), "a worker is still there"
        in_line = {(item[0], item[2]) for item in keys._heap}
        for group in keys._groups.values():
            assert not group.holds, "a place of a group is lost"
            in_line.update((item[0], item[2]) for item in group.line)
        lost = [key for key, entry in keys.entries.items() if (entry.due, entry) not in in_line]
        assert lost == [], "keys that nobody finds"
        assert [key for key in range(STEADY) if key not in schedule] == [], "lost"
        return len(self.done)


def poll_a_fleet(crew, draw):
    """Sixteen workers, half of them in two loops, and two who add and remove keys."""
    fleet = Fleet(draw)
    acts = []
    for count, act in ((8, fleet.work), (1, fleet.meddle)):
        for _ in range(count):
            acts += cast(partial(act, draw=Random(draw.random())), 1, 1)
    draw.shuffle(acts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        crew.play(*acts)
        return fleet.check()


def drain_and_close(crew, draw):
    """Close it while others take jobs: a drain returns once each of them has ended."""
    schedule = Schedule()
    schedule.add_all(range(STEADY * 4))
    at_work, done = {}, []

    async def work(face):
        with suppress(ScheduleClosed):
            while True:
                job = await face.wait(schedule.receive, schedule.receive_async)
                at_work[job.key] = job
                await face.give_way()
                del at_work[job.key]
                job.retry_in(0)
                done.append(None)

    async def end(face):
        while len(done) < STEADY:
            await face.give_way()
        schedule.close()
        assert await face.wait(schedule.drain, schedule.drain_async)
        assert not at_work, "drained, and a worker has a job"

    crew.play(*cast(work, 4, 4), *cast(end, 1, 1))
    assert (schedule.in_flight, len(schedule)) == (0, STEADY * 4)
    return len(done)


STORMS = {"a fleet": poll_a_fleet, "drains": drain_and_close}
