"""A fleet of devices, polled for ten minutes of virtual time: an outage, and a host that hangs."""

import asyncio
from collections import defaultdict

import pytest

from backoff_ticker import ExponentialBackOff, Schedule
from tests import effort
from tests.helpers import PATIENCE

DEVICES = effort.rounds(100, 2000)
EVERY = 5.0
OUTAGE = 120.0, 300.0
END = 600.0
HOSTS = 20
HANGS = 7
"""The host each of whose devices keeps a worker for a minute."""
FAILS = 3
"""The host that is down for three minutes."""


def expected(first, host):
    """Return when a device is polled: on its grid, and by its back-off while it fails."""
    times, now, failures, number = [], first, 0, 0
    while now < END:
        times.append(now)
        if host == FAILS and OUTAGE[0] <= now < OUTAGE[1]:
            now += min(2.0**failures, 60.0)
            failures += 1
        else:
            failures = 0
            while first + number * EVERY <= now:
                number += 1
            now = first + number * EVERY
    return times


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_each_device_is_polled_to_the_millisecond_and_none_starves(clock, kind):
    begin = clock.monotonic()
    schedule = Schedule(
        every=EVERY,
        backoff=ExponentialBackOff(1, 0, 2, max_interval=60),
        on=OSError,
        group=lambda device: device % HOSTS,
        limit=2,
        notify=lambda *_: None,
    )
    schedule.add_all(range(DEVICES))
    times, hanging, most = defaultdict(list), set(), []

    def poll(job):
        """Return whether the device hangs."""
        now = clock.monotonic() - begin
        times[job.key].append(now)
        host = job.key % HOSTS
        if host == FAILS and OUTAGE[0] <= now < OUTAGE[1]:
            raise OSError
        return host == HANGS

    def hang(job, *, begins):
        hanging.add(job.key) if begins else hanging.remove(job.key)
        most.append(len(hanging))

    def work():
        for job in schedule:
            with job:
                if poll(job):
                    hang(job, begins=True)
                    clock.sleep(60)
                    hang(job, begins=False)

    async def work_in_loop():
        async for job in schedule:
            with job:
                if poll(job):
                    hang(job, begins=True)
                    await asyncio.sleep(60)
                    hang(job, begins=False)

    async def work_together():
        await asyncio.gather(*(work_in_loop() for _ in range(4)))

    if kind == "thread":
        running = [clock.spawn(work) for _ in range(4)]
    else:
        running = [clock.spawn(lambda: asyncio.run(work_together()))]
    clock.advance(END - 0.001)
    schedule.close()
    clock.advance(60)
    for worker in running:
        worker.join(PATIENCE)
    for device in range(DEVICES):
        if device % HOSTS != HANGS:
            right = expected(device * EVERY / DEVICES, device % HOSTS)
            assert times[device] == pytest.approx(right, abs=1e-6)
    assert max(most) == 2
    assert sum(len(times[device]) for device in range(HANGS, DEVICES, HOSTS)) == 2 * END / 60
