"""Real threads and loops that retry, and a real cancel at any moment."""

from __future__ import annotations

import asyncio
import random
import sys
import threading

import pytest

from backoff_ticker import CancellationToken, Cancelled, ConstantBackOff, retry

pytestmark = pytest.mark.slow

THREADS, TASKS, ROUNDS = 3, 3, 60


@pytest.fixture(params=[5e-3, 1e-6])
def _switch_interval(request):
    before = sys.getswitchinterval()
    sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(before)


class Round:
    """One race; counts the calls of each caller that begin after the cancel has returned."""

    def __init__(self, rng):
        self.token = CancellationToken()
        self.over = False
        self.late = {}
        self.causes = []
        self.policy = ConstantBackOff(rng.choice((0.0, 0.0002)))
        self.delay = rng.random() * 0.002

    def operation(self, caller):
        if self.over:
            self.late[caller] = self.late.get(caller, 0) + 1
        raise ConnectionError

    def thread(self, caller):
        try:
            retry(self.policy, token=self.token)(self.operation)(caller)
        except Cancelled as error:
            self.causes.append(error.__cause__)

    async def task(self, caller):
        async def operation():
            self.operation(caller)

        try:
            await retry(self.policy, token=self.token)(operation)()
        except Cancelled as error:
            self.causes.append(error.__cause__)

    async def tasks(self):
        await asyncio.gather(*(self.task(THREADS + n) for n in range(TASKS)))

    def cancel(self):
        self.token.wait(self.delay)
        self.token.cancel()
        self.over = True


@pytest.mark.usefixtures("_switch_interval")
def test_after_a_cancel_there_is_no_call_but_one_that_had_looked_before():
    """Between the last look at the token and the first line of the operation a thread can lose
    the interpreter; so each caller may make one call that begins late, and no second."""
    rng = random.Random(1)
    for _ in range(ROUNDS):
        race = Round(rng)
        threads = [threading.Thread(target=race.thread, args=(n,)) for n in range(THREADS)]
        threads.append(threading.Thread(target=race.cancel))
        for thread in threads:
            thread.start()
        asyncio.run(race.tasks())
        for thread in threads:
            thread.join()
        assert len(race.causes) == THREADS + TASKS
        assert all(isinstance(cause, ConnectionError) for cause in race.causes)
        assert set(race.late.values()) <= {1}
