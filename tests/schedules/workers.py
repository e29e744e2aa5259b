"""Workers in threads or in an event loop, behind one interface; keys and errors of the tests."""

from __future__ import annotations

from contextlib import suppress

from backoff_ticker import CancellationToken, Schedule, ScheduleClosed, WouldBlock
from tests.channels.ends import End
from tests.helpers import PATIENCE
from tests.stress.crew import cast


class Workers(End):
    """Workers, each in a thread of its own, or each in a task of one loop."""

    def __init__(self, kind, clock):
        super().__init__(kind)
        self._clock = clock
        self._receives = []

    def receive(self, schedule, timeout=None):
        """Begin to receive; a job that the test does not end is ended after it."""
        self._receives.append(super().receive(schedule, timeout))
        return self._receives[-1]

    def close(self):
        super().close()
        for future in self._receives:
            if future.done() and not future.cancelled() and not future.exception():
                future.result().succeed()

    def take(self, schedule, timeout=0):
        """Return the job that is due now."""
        return self.receive(schedule, timeout).result(PATIENCE)

    def work(self, schedule, act):
        """Iterate to the end, with ``act(job)`` in the block of each job."""

        def block():
            for job in schedule:
                with job:
                    act(job)

        async def await_():
            async for job in schedule:
                with job:
                    act(job)

        return self.start(block, await_)

    def work_once(self, schedule, act=lambda _: None):
        """Do the work of the job that is due now, in its block; return the job, or raise."""

        async def once(face):
            job = await face.wait(schedule.receive, schedule.receive_async, 0)
            with job:
                act(job)
            return job

        [block, await_] = cast(once, 1, 1)
        return self.start(block, await_).result(PATIENCE)

    def drain(self, schedule, timeout=None):
        return self.start(schedule.drain, schedule.drain_async, timeout)

    def keys_until(self, schedule, seconds, act=lambda _: None):
        """Let a worker work for so long; return the keys, each with the seconds until it came."""
        begin, times = self._clock.monotonic(), []

        def note(job):
            times.append((job.key, round(self._clock.monotonic() - begin, 6)))
            act(job)

        working = self.work(schedule, note)
        self._clock.advance(seconds)
        schedule.close()
        working.result(PATIENCE)
        return times


def schedule_of(key, **options):
    """Return a schedule that has this key, which is due now."""
    schedule = Schedule(**options)
    schedule.add(key)
    return schedule


def fail(error):
    """Return work that fails with ``error``."""

    def act(_):
        raise error

    return act


def reopen(schedule):
    """Let workers take jobs of a schedule that was closed, to see what is in it."""
    schedule._token = CancellationToken(clock=schedule._clock)
    schedule._readers.closed = False


def take_all(schedule):
    """Return the keys that are due now, each by a job that ends well."""
    keys = []
    with suppress(WouldBlock, ScheduleClosed):
        while True:
            with schedule.receive_nowait() as job:
                keys.append(job.key)
    return keys


class Told:
    """Notes what ``notify`` and ``on_give_up`` are told."""

    def __init__(self):
        self.failures = []
        self.ends = []

    def notify(self, job, error, delay):
        self.failures.append((job.key, error, delay))

    def on_give_up(self, job, error):
        self.ends.append((job.key, error))

    @property
    def hooks(self):
        return {"notify": self.notify, "on_give_up": self.on_give_up}


class Evil:
    """A key that is equal to none, with a hash that many have; it raises when it is told to."""

    def __init__(self, *raises):
        self.raises = {*raises}

    def __hash__(self):
        if "hash" in self.raises:
            raise ZeroDivisionError("of __hash__")
        return 7

    def __eq__(self, other):
        if "eq" in self.raises or "eq" in getattr(other, "raises", ()):
            raise ZeroDivisionError("of __eq__")
        return self is other
