"""Waits that a timer measures."""

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    RetryAfter,
    Timer,
    ZeroBackOff,
    retry_call,
    with_max_retries,
)
from tests.retries.faces import BOTH, FOUR
from tests.retries.made_hooks import ends_of, spanning
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, Script, Takes, now
from tests.tickers.made_policies import Scripted
from tests.tickers.made_timers import Failing, Fake, Instant


@FOUR
def test_a_timer_measures_the_waits_and_no_time_passes(face):
    timer, script = Instant(), Script(OSError, RetryAfter(60), OSError, 7)
    assert face.run(script, Scripted(1.5, 0.0, 1e6), timer=timer) == 7
    assert script.times == [0, 0, 0, 0]
    assert face.run(Script(OSError, OSError, 7), ZeroBackOff(), timer=timer) == 7
    assert timer.delays == [1.5, 60, 1e6, 0, 0]


@BOTH
def test_a_wait_lasts_until_the_timer_fires(face, clock):
    timer, script = Fake(), Script(OSError, OSError, 7)
    at(clock, 4, timer.fire)
    at(clock, 5000, timer.fire)
    assert face.run(script, ConstantBackOff(10), timer=timer) == 7
    assert script.times == [0, 4, 5000]
    assert timer.delays == [10, 10]


@BOTH
@pytest.mark.parametrize("limit", ["token", "timeout"])
def test_a_cancel_and_the_timeout_end_the_wait_for_a_timer_and_stop_it(face, clock, limit):
    timer, token, script = Fake(), CancellationToken(), Script(OSError, 7)
    at(clock, 4, token.cancel)
    with pytest.raises(Cancelled):
        face.run(script, ConstantBackOff(1), timer=timer, **{limit: {"token": token}.get(limit, 4)})
    assert (script.times, now()) == ([0], 4)
    assert timer.stops >= 1


@BOTH
def test_limits_go_by_the_clock_and_not_by_the_timer(face):
    timer, script = Instant(), Script(Takes(4, OSError))
    with pytest.raises(TimeoutError):
        face.run(script, ConstantBackOff(1), timer=timer, timeout=11)
    assert script.times == [0, 4, 8]
    assert now() == (11 if face.asynchronous else 12)
    assert timer.delays == [1, 1]


@BOTH
def test_what_a_timer_sent_before_its_start_is_dropped(face, clock):
    timer, script = Fake(), Script(OSError, 7)
    timer.fire()
    at(clock, 4, timer.fire)
    assert face.run(script, ConstantBackOff(10), timer=timer) == 7
    assert script.times == [0, 4]


@BOTH
def test_a_run_without_a_failure_starts_no_timer(face):
    timer = Fake()
    assert face.run(Script(7), timer=timer) == 7
    with pytest.raises(OSError):
        face.run(Script(OSError), with_max_retries(ConstantBackOff(1), 0), timer=timer)
    assert timer.delays == []


@FOUR
@pytest.mark.parametrize("kind", [LookupError, KeyboardInterrupt])
def test_what_a_timer_raises_ends_the_run(face, kind):
    own, gave_up, log = kind(), Recorded(), []
    script = Script(OSError, 7)
    with pytest.raises(kind) as caught:
        face.run(
            script,
            ConstantBackOff(10),
            timer=Failing(own, start=1),
            on_give_up=gave_up,
            **spanning(log, "on_retry"),
        )
    assert caught.value is own
    assert ends_of(log, "on_retry") == [("in",), ("out", own)]
    assert (script.count, len(gave_up.calls)) == (1, isinstance(own, Exception))


@BOTH
def test_the_timer_of_a_clock_will_do(face, clock):
    script = Script(OSError, OSError, 7)
    assert face.run(script, ConstantBackOff(10), timer=Timer(clock=clock)) == 7
    assert script.times == [0, 10, 20]


def test_a_timer_that_measures_a_wait_refuses_another(clock):
    timer, token = Fake(), CancellationToken()

    def run(**options):
        return retry_call(Script(OSError), ConstantBackOff(1), timer=timer, **options)

    running = clock.spawn(lambda: run(token=token))
    clock.sleep(1)
    with pytest.raises(RuntimeError, match="another run"):
        run()
    token.cancel()
    with pytest.raises(Cancelled):
        running.join()


def test_a_timer_is_stopped_before_another_run_may_start_it(clock):
    refused = []

    class Asking(Instant):
        def stop(self):
            with pytest.raises(RuntimeError, match="another run") as caught:
                retry_call(Script(OSError), ConstantBackOff(1), timer=self)
            refused.append(caught.value)

    assert retry_call(Script(OSError, 7), ConstantBackOff(1), timer=Asking()) == 7
    assert len(refused) == 1
