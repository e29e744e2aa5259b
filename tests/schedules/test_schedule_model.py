"""A schedule does what a plain model does: random adds, removes, takes and ends of work."""

from math import ceil, floor, inf
from random import Random

import pytest

from backoff_ticker import ConstantBackOff, Schedule, WouldBlock, with_max_retries
from tests.schedules.workers import fail

KEYS = range(6)
RETRIES = 2
REST = 3.0


class Entry:
    """A key, from its ``add()`` until it leaves; ``again``: asked for while a worker has it."""

    def __init__(self, key, due, every, group):
        self.key, self.due, self.origin, self.every, self.group = key, due, due, every, group
        self.failures = 0
        self.again = inf

    def slot(self, now):
        """Return the first time of the grid that is later than the last job, and not past."""
        steps = max((now - self.origin) / self.every, 0)
        passed = floor((self.due - self.origin) / self.every) + 1
        return self.origin + max(ceil(steps), passed) * self.every


class Model:
    """What a schedule has to do, said with a dict of keys and a list of those in work."""

    def __init__(self, every, limit):
        self.every, self.limit = every, limit
        self.entries, self.in_work = {}, []

    def add(self, key, group, due):
        entry = self.entries.get(key)
        if entry is None:
            self.entries[key] = Entry(key, due, self.every, group)
        elif entry in self.in_work:
            entry.again = min(entry.again, due)
        else:
            entry.due = min(entry.due, due)
        return entry is None

    def ready(self, now):
        keys = [entry.key for entry in self.in_work]
        groups = [entry.group for entry in self.in_work]
        return [
            entry
            for entry in self.entries.values()
            if entry.due <= now
            and entry.key not in keys
            and (self.limit is None or groups.count(entry.group) < self.limit)
        ]

    def end(self, entry, how, now):
        self.in_work.remove(entry)
        again, entry.again = entry.again, inf
        is_removed = self.entries.get(entry.key) is not entry
        if is_removed and how != "is cancelled" and entry.key in self.entries:
            new = self.entries[entry.key]
            new.due = max(new.due, now)
        due = entry.due
        if how == "retries":
            due = now + REST
        elif how == "succeeds":
            entry.failures = 0
            due = entry.slot(now) if entry.every else inf
        elif how == "fails":
            entry.failures += 1
            due = inf if entry.failures > RETRIES else now + REST
        if is_removed:
            return
        if how == "leaves" or due == again == inf:
            del self.entries[entry.key]
        elif due == inf:  # it comes anew
            self.entries[entry.key] = Entry(entry.key, max(again, now), entry.every, entry.group)
        else:
            entry.due = min(due, max(again, due if how == "is cancelled" else now))


ENDS = {
    "succeeds": lambda _: None,
    "fails": fail(OSError()),
    "retries": lambda job: job.retry_in(REST),
    "leaves": lambda job: job.leave(),
    "is cancelled": fail(KeyboardInterrupt()),
}


@pytest.mark.parametrize("every", [None, 5.0])
@pytest.mark.parametrize("limit", [None, 1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_it_does_what_the_model_does(clock, every, limit, seed):
    random = Random(seed)
    model = Model(every, limit)
    groups = {}
    schedule = Schedule(
        every=every,
        backoff=with_max_retries(ConstantBackOff(REST), RETRIES),
        group=None if limit is None else groups.get,
        limit=limit,
        notify=lambda *_: None,
        on_give_up=lambda *_: None,
    )
    jobs = {}
    for _ in range(300):
        now, key = clock.monotonic(), random.choice(KEYS)
        action = random.choice(["add", "add", "remove", "take", "take", "end", "end", "wait"])
        if action == "add":
            groups[key], delay = random.randrange(2), random.choice([0, 1, 4, 12])
            assert schedule.add(key, delay) == model.add(key, groups[key], now + delay)
        elif action == "remove" and random.random() < 0.5:
            assert schedule.remove(key) == (model.entries.pop(key, None) is not None)
        elif action == "take":
            ready = model.ready(now)
            try:
                job = schedule.receive_nowait()
            except WouldBlock:
                assert not ready
                continue
            [entry] = [entry for entry in ready if entry.key == job.key]
            assert (job.due, job.failures) == (entry.due, entry.failures)
            assert entry.due == min(entry.due for entry in ready)
            model.in_work.append(entry)
            jobs[entry] = job
        elif action == "end" and jobs:
            entry, how = random.choice([*jobs]), random.choice([*ENDS])
            try:
                with jobs.pop(entry) as job:
                    ENDS[how](job)
            except KeyboardInterrupt:
                assert how == "is cancelled"
            model.end(entry, how, now)
        elif action == "wait":
            clock.advance(random.choice([0.5, 1, 2, 6]))
        assert [key for key in KEYS if key in schedule] == sorted(model.entries)
        assert (len(schedule), schedule.in_flight) == (len(model.entries), len(jobs))
        assert schedule.failing == sum(entry.failures > 0 for entry in model.entries.values())
    for job in jobs.values():
        job.succeed()
