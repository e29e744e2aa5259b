"""Threads of the standard library as participants, and joins."""

import threading
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import pytest

from backoff_ticker.testing import ClockUsageError, VirtualClock
from tests.stress.tools import run_script


def test_joins_in_participants_wait_on_the_clock(auto):
    sleeper = threading.Thread(target=auto.sleep, args=(10,))
    sleeper.start()
    sleeper.join(4)
    assert (sleeper.is_alive(), auto.monotonic()) == (True, 4.0)
    sleeper.join()
    assert (sleeper.is_alive(), auto.monotonic()) == (False, 10.0)
    sleeper.join()


def test_a_join_that_nothing_would_end_is_refused_or_times_out_at_once(clock):
    sleeper = threading.Thread(target=clock.sleep, args=(10,))
    sleeper.start()
    with pytest.raises(ClockUsageError, match=r"Thread\.join"):
        sleeper.join()
    sleeper.join(60)
    assert (sleeper.is_alive(), clock.monotonic()) == (True, 0.0)
    with ThreadPoolExecutor() as pool:
        job = pool.submit(clock.sleep, 10)
        with pytest.raises(TimeoutError):
            job.result(60)
        clock.advance(10)
        assert job.result() is None
    sleeper.join()


@pytest.fixture
def outsider():
    """A thread that has started before any clock, and the event that ends it."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield thread, end
    end.set()
    thread.join()


@pytest.mark.parametrize("in_driver", [False, True])
def test_a_join_of_a_thread_outside_of_the_clock_has_its_timeout_on_the_clock(outsider, in_driver):
    thread, _ = outsider
    with VirtualClock(auto=True) as clock:
        steps = clock.spawn(lambda: [clock.sleep(5) for _ in range(13)])

        def join():
            thread.join(20)
            return thread.is_alive(), clock.monotonic()

        joined = join() if in_driver else clock.spawn(join).result()
        assert joined == (True, 20.0)
        steps.join()


def test_a_join_of_a_thread_outside_of_the_clock_sees_its_end(outsider):
    thread, end = outsider
    with VirtualClock() as clock:
        task = clock.spawn(lambda: thread.join(20))
        clock.advance(5)
        end.set()
        thread.join()
        with clock.auto_advance():
            task.join()
        assert (thread.is_alive(), clock.monotonic()) == (False, 5.0)
        clock.spawn(thread.join, 20).join()
        with pytest.raises(RuntimeError, match="before it is started"):
            clock.spawn(threading.Thread().join, 20).join()


def test_a_join_inside_external_is_in_real_time(outsider):
    thread, end = outsider
    with VirtualClock(auto=True) as clock:
        steps = clock.spawn(clock.sleep, 60)

        def join():
            with clock.external("the end of a thread"):
                end.set()
                thread.join(20)
            return thread.is_alive(), clock.monotonic()

        assert clock.spawn(join).result() == (False, 0.0)
        steps.join()


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


def test_a_thread_that_cannot_be_started_does_not_count(auto):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="once"):
        thread.start()
    auto.sleep(5)
    assert auto.monotonic() == 5.0


def test_an_error_in_a_thread_is_shown_as_usual(auto, monkeypatch):
    shown = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    thread = threading.Thread(target=lambda: auto.sleep(1) or 1 / 0)
    thread.start()
    thread.join()
    assert [type(one.exc_value) for one in shown] == [ZeroDivisionError]


def test_the_thread_of_the_system_clock_is_no_participant_wherever_it_starts():
    done = run_script(
        dedent(
            """
            import threading
            from backoff_ticker import SystemClock
            from backoff_ticker.testing import VirtualClock

            called = threading.Lock()
            called.acquire()
            with VirtualClock(settle_timeout=0.5) as clock:
                SystemClock().call_at(SystemClock().monotonic() + 3600, print)
                SystemClock().call_at(SystemClock().monotonic(), called.release)
                clock.settle()
                assert called.acquire(timeout=10)
                clock.advance(1)
            print("done")
            """
        )
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_nothing_is_patched_outside():
    from concurrent.futures import _base, thread as pools

    def replaced():
        return (
            threading.Thread.start,
            threading.Thread.join,
            threading.Condition.wait,
            ThreadPoolExecutor.submit,
            ThreadPoolExecutor.shutdown,
            pools._WorkItem.run,
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
