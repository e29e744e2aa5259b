"""Thread pools and futures inside a virtual clock."""

import gc
import weakref
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor, as_completed, wait

import pytest

from backoff_ticker.testing import VirtualClock
from tests import effort


def test_jobs_that_run_count_and_queued_ones_do_not(auto):
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(lambda: auto.sleep(10) or auto.monotonic()) for _ in range(5)]
        assert [job.result() for job in jobs] == [10.0, 10.0, 20.0, 20.0, 30.0]


def test_waits_for_futures_and_their_time_outs_are_on_the_clock(auto):
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(auto.sleep, seconds) for seconds in (10, 9, 8, 7)]
        assert [jobs.index(job) for job in as_completed(jobs)] == [1, 0, 2, 3]
        assert auto.monotonic() == 17.0
        slow = pool.submit(auto.sleep, 100)
        with pytest.raises(TimeoutError):
            slow.result(5)
        assert not slow.done()
        assert auto.monotonic() == 22.0
        with pytest.raises(TimeoutError):
            list(as_completed([slow], timeout=3))
        assert auto.monotonic() == 25.0
        assert wait([slow], timeout=10).not_done == {slow}
        assert auto.monotonic() == 35.0
        with pytest.raises(TimeoutError):
            list(pool.map(auto.sleep, [1, 50], timeout=20))
    assert auto.monotonic() == 117.0


@pytest.mark.parametrize("wait", [False, True])
def test_jobs_that_are_cancelled_before_they_begin_hold_nothing_up(auto, wait):
    pool = ThreadPoolExecutor(1)
    first = pool.submit(auto.sleep, 10)
    others = [pool.submit(auto.sleep, 100) for _ in range(5)]
    auto.block_until(parked=1)  # the first one has been taken
    assert others[0].cancel()
    pool.shutdown(wait=wait, cancel_futures=True)
    assert [one.cancelled() for one in others] == [True] * 5
    first.result()
    assert auto.monotonic() == 10.0
    auto.sleep(1)


def test_a_pool_made_before_the_clock_serves_it():
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        for _ in range(5):
            with VirtualClock(auto=True) as clock:
                job = pool.submit(lambda clock=clock: clock.sleep(3) or clock.monotonic())
                assert job.result() == 3.0
        assert pool.submit(int).result() == 0


def test_a_pool_that_breaks_holds_nothing_up(auto):
    def fail():
        raise RuntimeError

    with ThreadPoolExecutor(1, initializer=fail) as pool, pytest.raises(BrokenExecutor):
        pool.submit(int).result()
    auto.sleep(1)


def test_a_wait_for_a_cancelled_job_lasts_until_a_worker_takes_it(auto):
    for _ in range(effort.rounds(10, 50)):
        start = auto.monotonic()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(auto.sleep, 10)
            cancelled = pool.submit(int)
            cancelled.cancel()
            wait([cancelled])
            assert auto.monotonic() == start + 10.0


def test_time_outs_of_as_completed_follow_those_of_wait(auto):
    never = Future()
    wait([never], timeout=1)
    for seconds in (0, 1, 2, 0.1):
        start = auto.monotonic()
        with pytest.raises(TimeoutError):
            list(as_completed([never], timeout=seconds))
        assert auto.monotonic() == start + seconds


def test_a_function_of_a_job_may_have_parameters_of_any_name(auto):
    def keywords(**given):
        return given

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(keywords, self=1, function=2).result() == {"self": 1, "function": 2}
    assert auto.run(keywords, self=1, function=2) == {"self": 1, "function": 2}
    assert auto.tracked(keywords)(self=1, function=2) == {"self": 1, "function": 2}


@pytest.mark.parametrize("outcome", ["result", "error", "cancelled"])
def test_a_job_that_has_ended_keeps_its_function_alive_no_longer(auto, outcome):
    class Work:
        def __call__(self):
            if outcome == "error":
                raise ConnectionError

    gc.disable()  # nothing but the last reference ends it
    try:
        work = Work()
        alive = weakref.ref(work)
        with ThreadPoolExecutor(1) as pool:
            before = pool.submit(auto.sleep, 1)
            future = pool.submit(work)
            if outcome == "cancelled":
                future.cancel()
            before.result()
        del work
        assert future.done()
        if outcome == "error":
            assert future.exception().__traceback__ is not None
            del future  # the frames of the error refer to the function
        assert alive() is None
    finally:
        gc.enable()
