"""Corners of timers, budgets, and waits that are skipped."""

from __future__ import annotations

import threading

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    Channel,
    ConstantBackOff,
    RetryBudget,
    ZeroBackOff,
    retry,
    retry_call,
    retry_call_async,
)
from backoff_ticker.testing import no_wait
from tests.retries.scripts import Script, now


def test_the_smallest_cost_counts():
    budget = RetryBudget(1e-9, 0, 4e-10)
    assert [budget.try_acquire() for _ in range(3)].count(True) <= 2


def test_a_timer_that_measures_a_wait_refuses_another(clock):
    class Never:
        def __init__(self):
            self.c = Channel(1)

        def start(self, delay):
            pass

        def stop(self):
            pass

    timer, token = Never(), CancellationToken(clock)
    ended = []

    def first():
        try:
            retry_call(Script(OSError), ConstantBackOff(1), timer=timer, token=token)
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    clock.sleep(1)
    with pytest.raises(RuntimeError, match="another run"):
        retry_call(Script(OSError), ConstantBackOff(1), timer=timer)
    token.cancel()
    thread.join()
    assert len(ended) == 1


@no_wait()
async def decorated():
    return await retry_call_async(Script(OSError, 7).in_loop, ConstantBackOff(5))


@no_wait()
def decorated_plain():
    return retry_call(Script(OSError, 7), ConstantBackOff(5))


def test_no_wait_decorates_functions_of_both_kinds(clock):
    assert (clock.run_async(decorated()), decorated_plain()) == (7, 7)
    assert now() == 0


def test_a_timer_is_started_for_waits_of_no_time_too(clock):
    class Counts:
        def __init__(self):
            self.c = Channel(1)
            self.starts = 0

        def start(self, delay):
            self.starts += 1
            self.c.send_nowait(0.0)

        def stop(self):
            pass

    for run in (retry_call, lambda f, p, **o: retry(p, **o)(f)()):
        timer = Counts()
        assert run(Script(OSError, OSError, 7), ZeroBackOff(), timer=timer) == 7
        assert timer.starts == 2


def test_a_timer_is_stopped_before_another_run_may_start_it(clock):
    refused = []

    class Timer:
        def __init__(self):
            self.c = Channel(1)

        def start(self, delay):
            self.c.send_nowait(0.0)

        def stop(self):
            with pytest.raises(RuntimeError, match="another run") as caught:
                retry_call(Script(OSError), ConstantBackOff(1), timer=self)
            refused.append(caught.value)

    timer = Timer()
    assert retry_call(Script(OSError, 7), ConstantBackOff(1), timer=timer) == 7
    assert len(refused) == 1


def test_no_wait_decorates_no_generators():
    def generator():
        yield

    for wrong in (generator, Channel):
        with pytest.raises(TypeError, match=r"no_wait\(\) decorates"):
            no_wait()(wrong)
