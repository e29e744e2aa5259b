"""Waits that a timer measures."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    Channel,
    ConstantBackOff,
    DeadlineExceeded,
    RetryAfter,
    Timer,
    ZeroBackOff,
    retry,
    retry_call,
    retry_call_async,
    with_max_retries,
)
from tests.retries.faces import BOTH, FOUR
from tests.retries.made_hooks import ends_of, spanning
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, Script, Takes, now
from tests.tickers.made_policies import Scripted
from tests.tickers.made_timers import Failing, Fake, Instant

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


class Own:
    """What a user writes: six lines around a channel."""

    def __init__(self) -> None:
        self.c: Channel[float] = Channel(1)
        self.delays: list[float] = []

    def start(self, delay: float) -> None:
        self.delays.append(delay)
        self.c.send_nowait(0.0)

    def stop(self) -> None:
        pass


@FOUR
def test_a_timer_measures_the_waits_and_no_time_passes(face: Any) -> None:
    timer, script = Own(), Script(OSError, RetryAfter(60), OSError, 7)
    assert face.run(script, Scripted(1.5, 0.0, 1e6), timer=timer) == 7
    assert script.times == [0, 0, 0, 0]
    assert timer.delays == [1.5, 60, 1e6]


@BOTH
def test_a_wait_lasts_until_the_timer_fires(face: Any, clock: VirtualClock) -> None:
    timer, script = Fake(), Script(OSError, OSError, 7)
    at(clock, 4, timer.fire)
    at(clock, 5000, timer.fire)
    assert face.run(script, ConstantBackOff(10), timer=timer) == 7
    assert script.times == [0, 4, 5000]
    assert timer.delays == [10, 10]


@BOTH
def test_a_cancel_ends_the_wait_for_a_timer_and_stops_it(face: Any, clock: VirtualClock) -> None:
    timer, token, script = Fake(), CancellationToken(), Script(OSError, 7)
    at(clock, 4, token.cancel)
    with pytest.raises(Cancelled):
        face.run(script, ConstantBackOff(10), timer=timer, token=token)
    assert (script.times, now()) == ([0], 4)
    assert timer.stops >= 1


@BOTH
def test_limits_go_by_the_clock_and_not_by_the_timer(face: Any) -> None:
    timer, script = Instant(), Script(Takes(4, OSError))
    with pytest.raises(TimeoutError):
        face.run(script, ConstantBackOff(1), timer=timer, timeout=11)
    assert script.times == [0, 4, 8]
    assert now() == (11 if face.asynchronous else 12)
    assert timer.delays == [1, 1]


@BOTH
def test_what_a_timer_sent_before_its_start_is_dropped(face: Any, clock: VirtualClock) -> None:
    timer, script = Fake(), Script(OSError, 7)
    timer.fire()
    at(clock, 4, timer.fire)
    assert face.run(script, ConstantBackOff(10), timer=timer) == 7
    assert script.times == [0, 4]


@BOTH
def test_a_timer_that_never_fires_holds_nobody_beyond_the_timeout(face: Any) -> None:
    timer, script = Fake(), Script(OSError, 7)
    with pytest.raises(DeadlineExceeded):
        face.run(script, ConstantBackOff(1), timer=timer, timeout=10)
    assert (script.times, now()) == ([0], 10)
    assert timer.stops >= 1


@BOTH
def test_a_run_without_a_failure_starts_no_timer(face: Any) -> None:
    timer = Fake()
    assert face.run(Script(7), timer=timer) == 7
    with pytest.raises(OSError):
        face.run(Script(OSError), with_max_retries(ConstantBackOff(1), 0), timer=timer)
    assert timer.delays == []


@BOTH
def test_a_timer_can_be_used_by_one_run_after_the_other(face: Any) -> None:
    timer = Own()
    for _ in range(3):
        assert face.run(Script(OSError, 7), ConstantBackOff(10), timer=timer) == 7
    assert timer.delays == [10, 10, 10]


@FOUR
def test_what_a_timer_raises_ends_the_run(face: Any) -> None:
    own, gave_up, log = LookupError("of the timer"), Recorded(), []
    script = Script(OSError, 7)
    with pytest.raises(LookupError) as caught:
        face.run(
            script,
            ConstantBackOff(10),
            timer=Failing(own, start=1),
            on_give_up=gave_up,
            **spanning(log, "on_retry"),
        )
    assert caught.value is own
    assert script.count == 1
    assert ends_of(log, "on_retry") == [("in",), ("out", own)]
    assert len(gave_up.calls) == 1


@FOUR
def test_an_interrupt_in_the_wait_leaves_the_manager_once(face: Any) -> None:
    interrupt, gave_up, log = KeyboardInterrupt(), Recorded(), []
    script = Script(OSError, 7)
    with pytest.raises(KeyboardInterrupt) as caught:
        face.run(
            script,
            ConstantBackOff(10),
            timer=Failing(interrupt, start=1),
            on_give_up=gave_up,
            **spanning(log, "on_retry"),
        )
    assert caught.value is interrupt
    assert ends_of(log, "on_retry") == [("in",), ("out", interrupt)]
    assert (script.count, gave_up.calls) == (1, [])


@BOTH
def test_the_timer_of_a_clock_will_do(face: Any, clock: VirtualClock) -> None:
    script = Script(OSError, OSError, 7)
    assert face.run(script, ConstantBackOff(10), timer=Timer(clock=clock)) == 7
    assert script.times == [0, 10, 20]


def test_others_run_while_a_coroutine_waits_for_a_timer(clock: VirtualClock) -> None:
    timer, script, seen = Fake(), Script(OSError, 7), []

    async def fire() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(now())
        timer.fire()

    async def main() -> Any:
        running = retry_call_async(script.in_loop, ConstantBackOff(10), timer=timer)
        return await asyncio.gather(running, fire())

    assert asyncio.run(main()) == [7, None]
    assert (seen, script.times) == ([1, 2, 3], [0, 3])


def test_a_timer_that_measures_a_wait_refuses_another(clock):
    class Never:
        def __init__(self):
            self.c = Channel(1)

        def start(self, delay):
            pass

        def stop(self):
            pass

    timer, token = Never(), CancellationToken(clock=clock)
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
