"""Thread pools, threads and joins inside a virtual clock."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed, wait

import pytest

from backoff_ticker.testing import ClockUsageError, VirtualClock


@pytest.fixture
def auto():
    with VirtualClock(auto=True) as clock:
        yield clock


@pytest.fixture
def manual():
    with VirtualClock() as clock:
        yield clock


def test_jobs_that_run_count_and_those_in_the_queue_do_not(auto):
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(lambda: auto.sleep(10) or auto.monotonic()) for _ in range(5)]
        assert [job.result() for job in jobs] == [10.0, 10.0, 20.0, 20.0, 30.0]


def test_as_completed_wait_map_and_time_outs_are_on_the_clock(auto):
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(auto.sleep, seconds) for seconds in (10, 9, 8, 7)]
        assert [jobs.index(job) for job in as_completed(jobs)] == [1, 0, 2, 3]
        assert auto.monotonic() == 17.0
        slow = pool.submit(auto.sleep, 100)
        with pytest.raises(TimeoutError):
            slow.result(5)
        assert slow.exception is not None
        assert auto.monotonic() == 22.0
        with pytest.raises(TimeoutError):
            list(as_completed([slow], timeout=3))
        assert auto.monotonic() == 25.0
        assert wait([slow], timeout=10).not_done == {slow}
        assert auto.monotonic() == 35.0
        with pytest.raises(TimeoutError):
            list(pool.map(auto.sleep, [1, 50], timeout=20))
    assert auto.monotonic() == 117.0


def test_jobs_may_submit_jobs_and_wait_for_them(auto):
    with ThreadPoolExecutor(4) as pool:

        def outer(depth):
            auto.sleep(1)
            return depth if depth == 3 else pool.submit(outer, depth + 1).result()

        assert pool.submit(outer, 0).result() == 3
    assert auto.monotonic() == 4.0


def test_jobs_that_are_cancelled_hold_nothing_up(auto):
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(auto.sleep, 5)
        queued = [pool.submit(auto.sleep, 100) for _ in range(3)]
        assert [job.cancel() for job in queued[:2]] == [True, True]
        first.result()
        assert auto.monotonic() == 5.0
        pool.shutdown(wait=False, cancel_futures=True)
    auto.sleep(1)


def test_a_pool_made_before_the_clock_serves_it():
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        for _ in range(20):
            with VirtualClock(auto=True) as clock:
                job = pool.submit(lambda clock=clock: clock.sleep(3) or clock.monotonic())
                assert job.result() == 3.0
        assert pool.submit(int).result() == 0


def test_what_a_job_raises_comes_out_of_its_future(auto):
    with ThreadPoolExecutor() as pool, pytest.raises(ZeroDivisionError):
        pool.submit(lambda: auto.sleep(1) or 1 / 0).result()


def test_joins_in_participants_wait_on_the_clock(auto):
    sleeper = threading.Thread(target=auto.sleep, args=(10,))
    sleeper.start()
    sleeper.join(4)
    assert (sleeper.is_alive(), auto.monotonic()) == (True, 4.0)
    sleeper.join()
    assert (sleeper.is_alive(), auto.monotonic()) == (False, 10.0)
    sleeper.join()


def test_a_join_by_hand_that_nothing_would_end_is_refused_or_times_out_at_once(manual):
    sleeper = threading.Thread(target=manual.sleep, args=(10,))
    sleeper.start()
    with pytest.raises(ClockUsageError, match=r"Thread\.join"):
        sleeper.join()
    sleeper.join(60)
    assert (sleeper.is_alive(), manual.monotonic()) == (True, 0.0)
    with ThreadPoolExecutor() as pool:
        job = pool.submit(manual.sleep, 10)
        with pytest.raises(TimeoutError):
            job.result(60)
        manual.advance(10)
        assert job.result() is None
    sleeper.join()


def test_a_subclass_with_a_run_of_its_own_is_a_participant(auto):
    class Worker(threading.Thread):
        def run(self):
            auto.sleep(7)
            self.woken = auto.monotonic()

    worker = Worker()
    worker.start()
    worker.join()
    assert worker.woken == 7.0
    assert "run" not in vars(worker)


def test_a_thread_that_cannot_be_started_does_not_count(auto, monkeypatch):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="once"):
        thread.start()
    auto.sleep(5)
    assert auto.monotonic() == 5.0


def test_an_error_in_a_thread_is_shown_as_ever(auto, monkeypatch):
    shown = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    thread = threading.Thread(target=lambda: auto.sleep(1) or 1 / 0)
    thread.start()
    thread.join()
    assert [type(one.exc_value) for one in shown] == [ZeroDivisionError]


def test_outside_nothing_is_replaced():
    from concurrent.futures import Future, _base, thread as pools

    def replaced():
        return (
            threading.Thread.start,
            threading.Thread.join,
            Future.result,
            ThreadPoolExecutor.submit,
            ThreadPoolExecutor.shutdown,
            pools._WorkItem.run,
            _base._Waiter.__init__,
            _base.time,
        )

    before = replaced()
    with VirtualClock():
        inside = replaced()
        with VirtualClock():
            assert replaced() == inside
        assert replaced() == inside
    assert all(one is not other for one, other in zip(before, inside, strict=True))
    assert replaced() == before
    with pytest.raises(KeyError), VirtualClock():
        raise KeyError
    assert replaced() == before
