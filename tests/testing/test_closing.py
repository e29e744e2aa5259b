"""How a clock is entered and closed, and what happens to participants that still wait."""

import asyncio
import queue
import threading
from contextlib import nullcontext

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, Ticker
from backoff_ticker.testing import ClockLeakError, ClockUsageError, VirtualClock, _real_time
from tests.helpers import PATIENCE, eventually

from .real_threads import RealThread


def test_a_clock_is_entered_once(clock):
    with pytest.raises(ClockUsageError, match="entered once"):
        clock.__enter__()


def test_what_somebody_patches_inside_the_block_stays_after_it(monkeypatch):
    """As a library for tests or for tracing does, which keeps what it found and calls that."""
    started = []
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # back after the test
    with VirtualClock() as clock:
        found = threading.Thread.start
        monkeypatch.setattr(
            threading.Thread, "start", lambda one: (started.append(one.name), found(one))
        )
    with VirtualClock(auto=True) as clock:  # the new patches lie above theirs
        thread = threading.Thread(target=clock.sleep, args=(5,), name="mine")
        thread.start()
        thread.join()
        assert clock.monotonic() == 5.0
    assert started == ["mine"]
    monkeypatch.setattr(threading.Thread, "start", found)
    threading.Thread(target=started.append, args=("real",)).start()
    eventually(lambda: started == ["mine", "real"])


def test_participants_that_wait_are_ended_and_named():
    before = set(threading.enumerate())
    with pytest.raises(ClockLeakError) as caught, VirtualClock() as clock:
        token = CancellationToken()
        for n in range(50):
            threading.Thread(target=token.wait, name=f"sleeper-{n}").start()

        async def many():
            await asyncio.gather(*(token.wait_async() for _ in range(50)))

        threading.Thread(target=lambda: asyncio.run(many()), name="loop").start()
        clock.advance(1)
    assert "51 participants still waited" in str(caught.value)
    assert "sleeper-49" in str(caught.value)
    assert "loop: event loop" in str(caught.value)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("frozen", [False, True])
def test_a_block_that_an_error_leaves_waits_for_nobody_as_long_as_it_would(monkeypatch, frozen):
    monkeypatch.setattr(_real_time, "_AFTER_ERROR", 0.05)
    stop = threading.Event()

    def stuck(clock):
        with clock.external("a server") if frozen else nullcontext():
            stop.wait()

    with pytest.raises(KeyError) as caught, VirtualClock(settle_timeout=3600) as clock:
        clock.spawn(stuck, clock)
        sleeper = threading.Thread(target=clock.sleep, args=(5,))
        sleeper.start()
        raise KeyError
    assert "ClockLeakError: 2 participants still waited" in caught.value.__notes__[0]
    sleeper.join(PATIENCE)
    assert not sleeper.is_alive()
    stop.set()


def test_a_participant_that_catches_everything_is_ended_all_the_same():
    ended = []

    def stubborn(clock):
        for _ in range(3):
            try:
                clock.sleep(5)
            except BaseException as error:
                ended.append(type(error).__name__)

    with pytest.raises(ClockLeakError), VirtualClock() as clock:
        clock.spawn(stubborn, clock)
    assert ended == ["ParticipantAborted"] * 3


def test_an_untracked_thread_is_ended_with_the_clock():
    with VirtualClock(strict=False) as clock:
        thread = RealThread(lambda: clock.sleep(100))
        clock.block_until(timers=1)
    with pytest.raises(BaseException) as ended:
        thread.join(10)
    assert ended.typename == "ParticipantAborted"


def test_close_ends_the_step_of_another_thread():
    stop = queue.SimpleQueue()

    def advance(clock):
        try:
            with pytest.raises(ClockUsageError, match=r"^the clock was closed meanwhile$"):
                clock.advance(10)
        finally:
            stop.put(None)

    with pytest.raises(ClockLeakError), VirtualClock() as clock:
        sleeper = clock.spawn(clock.sleep, 100)
        clock.settle()
        clock.spawn(stop.get)
        foreign = RealThread(lambda: advance(clock))
        kernel = clock._kernel
        assert kernel.commands.wait_for(lambda: kernel.step is not None, 10)
    foreign.join(10)
    assert sleeper.done()


# Daemon threads


def start_daemon(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def tick_for_ever():
    for _ in Ticker(ConstantBackOff(1)):
        pass


def test_a_daemon_thread_is_a_leak_unless_daemons_may_stay():
    with pytest.raises(ClockLeakError, match="1 participant"), VirtualClock() as clock:
        daemon = start_daemon(tick_for_ever)
        clock.advance(5)
    daemon.join(10)
    with VirtualClock(allow_daemons=True) as clock:
        daemon = start_daemon(tick_for_ever)
        clock.advance(5)
    daemon.join(10)
    assert not daemon.is_alive()


def test_a_daemon_that_waits_for_something_else_may_stay_too():
    stop = queue.SimpleQueue()
    with VirtualClock(auto=True, allow_daemons=True) as clock:

        def serve():
            with clock.idle("serving"):
                stop.get()

        daemon = start_daemon(serve)
        clock.sleep(5)
    assert daemon.is_alive()
    stop.put(None)
    daemon.join(10)


# Errors that nobody has received


def test_the_error_of_a_task_that_nobody_joined_is_raised_at_the_end():
    def fail(clock):
        clock.sleep(1)
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost") as caught, VirtualClock() as clock:
        clock.spawn(fail, clock, name="worker")
        clock.advance(2)
    assert caught.value.__notes__ == ["in task 'worker', which nobody joined"]


def test_a_leak_has_the_error_before_it_as_its_cause():
    def fail():
        raise KeyError("the root of it")

    with pytest.raises(ClockLeakError) as caught, VirtualClock() as clock:
        clock.spawn(fail)
        clock.spawn(clock.sleep, 5)
    assert repr(caught.value.__cause__) == "KeyError('the root of it')"


@pytest.mark.parametrize(
    "call",
    [
        lambda clock: clock.advance(1),
        VirtualClock.settle,
        lambda clock: clock.call_at(1, print),
        lambda clock: clock.sleep(1),
        lambda clock: clock.spawn(print),
        lambda clock: clock.tracked(print),
        lambda clock: clock.run(print),
        VirtualClock.new_event_loop,
        lambda clock: clock.parker("a wait").park(None),
    ],
)
def test_a_closed_clock_says_so(call):
    clock = VirtualClock()
    clock.close()
    with pytest.raises(ClockUsageError, match="closed"):
        call(clock)
