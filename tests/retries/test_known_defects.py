"""What is known to go wrong in retries elsewhere, and does not here."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    RetryAfter,
    StopBackOff,
    ZeroBackOff,
    retry,
    retry_call_async,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from tests.effort import rounds
from tests.retries.faces import ASYNC, BOTH, SYNC
from tests.retries.made_policies import Wrapper, at, cancelled_token
from tests.retries.scripts import Recorded, Script, Takes, now
from tests.tickers.made_policies import Counting, Scripted

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


# cenkalti/backoff


@BOTH
def test_a_wrapper_of_the_users_hides_no_token(face: Any, clock: VirtualClock) -> None:
    token = CancellationToken()
    at(clock, 0.02, token.cancel)
    policy = Wrapper(Wrapper(with_token(ConstantBackOff(0.3), token)))
    script = Script(ValueError)
    with pytest.raises(Cancelled):
        face.run(script, policy)
    assert script.count == 1
    assert now() == pytest.approx(0.02, abs=1e-9)


@BOTH
def test_a_cancel_in_notify_always_comes_before_a_delay_of_zero(face: Any) -> None:
    calls, runs = 0, rounds(10, 100)
    for _ in range(runs):
        token = CancellationToken()
        script = Script(ValueError)
        with pytest.raises(Cancelled):
            face.run(script, ZeroBackOff(), token=token, notify=lambda *_: token.cancel())
        calls += script.count
    assert calls == runs


@BOTH
def test_neither_of_two_errors_is_lost(face: Any) -> None:
    last, cause = OSError("refused"), KeyError("shut down")
    with pytest.raises(Cancelled) as caught:
        face.run(Script(last), ZeroBackOff(), token=cancelled_token(cause))
    assert caught.value.__cause__ is last
    assert caught.value.cause is cause
    with pytest.raises(OSError) as raised:
        face.run(Script(last), StopBackOff())
    assert raised.value is last


@ASYNC
def test_a_hung_operation_is_cut_and_called_again(face: Any) -> None:
    script = Script(Takes(1e6, 1), 7)
    assert face.run(script, ConstantBackOff(2), attempt_timeout=5) == 7
    assert script.times == [0, 7]


@BOTH
def test_a_long_first_attempt_uses_up_nothing_of_the_time_for_retries(face: Any) -> None:
    script = Script(Takes(100, ValueError), ValueError)
    with pytest.raises(ValueError):
        face.run(script, with_max_elapsed_time(ConstantBackOff(2), 5))
    assert script.times == [0, 102, 104]


@BOTH
def test_the_limit_of_15_minutes_refuses_no_longer_retry_after(face: Any) -> None:
    script = Script(RetryAfter(3600), 7)
    assert face.run(script) == 7
    assert script.times == [0, 3600]


@BOTH
def test_no_limit_can_be_said_and_is_the_default_of_max_attempts(face: Any) -> None:
    script = Script(*[ValueError] * 1500, 7)
    assert face.run(script, ZeroBackOff(), max_attempts=None, timeout=None) == 7
    assert script.count == 1501
    with pytest.raises(ValueError, match="max_attempts"):
        face.run(script, max_attempts=0)


@BOTH
def test_a_maximum_of_the_delay_is_one(face: Any) -> None:
    told = Recorded()
    policy = with_max_interval(ExponentialBackOff(1, 0.5, 2, 1.2, max_elapsed_time=None), 1.2)
    face.run(Script(*[OSError] * 60, 7), policy, notify=told)
    assert max(delay for _, _, delay in told.calls) == 1.2


@BOTH
def test_no_number_means_stop(face: Any) -> None:
    for number in (-1, -1e9, float("nan"), float("inf")):
        policy, script = Scripted(number, then=0.0), Script(OSError("first"), 7)
        with pytest.raises(ValueError, match="the scripted policy") as caught:
            face.run(script, policy)
        assert str(caught.value.__cause__) == "first"
        assert script.count == 1


@BOTH
def test_no_retry_no_timer_and_no_error_are_what_they_say(face: Any) -> None:
    script = Script(OSError, 7)
    with pytest.raises(OSError):
        face.run(script, with_max_retries(ConstantBackOff(1), 0))
    assert script.count == 1
    error = RetryAfter(3, None)
    script = Script(error)
    with pytest.raises(RetryAfter) as caught:
        face.run(script, max_attempts=2, timer=None)
    assert caught.value is error
    assert script.times == [0, 3]


@BOTH
def test_retry_after_keeps_its_cause_and_stop_binds_it(face: Any) -> None:
    errors, told = [OSError(1), OSError(2)], Recorded()
    script = Script(*(RetryAfter(9, error) for error in errors))
    with pytest.raises(OSError) as caught:
        face.run(script, with_max_retries(ConstantBackOff(1), 1), notify=told)
    assert caught.value is errors[1]
    assert told.calls == [(0, errors[0], 9.0)]
    assert script.times == [0, 9]


@SYNC
def test_threads_that_share_a_policy_share_none_of_its_state(
    face: Any, clock: VirtualClock
) -> None:
    policy = Counting()
    scripts = [Script(*[OSError] * 3, 7) for _ in range(8)]
    threads = [threading.Thread(target=face.run, args=(script, policy)) for script in scripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [script.times for script in scripts] == [[0, 1, 3, 6]] * 8
    assert policy.last == 0


# tenacity and stamina


def test_the_time_out_of_a_caller_is_not_swallowed(clock: VirtualClock) -> None:
    script = Script(Takes(1, "late"))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(
                retry_call_async(script.in_loop, ZeroBackOff(), on=lambda error: True), 0.25
            )
        assert (now(), script.count) == (0.25, 1)

    asyncio.run(main())


@BOTH
def test_no_call_is_made_after_a_cancel(face: Any, clock: VirtualClock) -> None:
    token, script = CancellationToken(), Script(ValueError)
    at(clock, 0.25, token.cancel)
    with pytest.raises(Cancelled):
        face.run(script, ConstantBackOff(1), token=token)
    assert (script.times, now()) == ([0], 0.25)


def test_calls_of_one_decorated_function_share_no_statistics(clock: VirtualClock) -> None:
    seen: dict[str, list[Any]] = {}

    @retry(ConstantBackOff(1), max_attempts=4, on_attempt=lambda outcome: note(outcome))
    def fails(pause: float) -> None:
        clock.sleep(pause)
        raise OSError

    def note(outcome: Any) -> None:
        name = threading.current_thread().name
        seen.setdefault(name, []).append((outcome.attempts, outcome.waited, now()))

    def run(pause: float) -> None:
        with pytest.raises(OSError):
            fails(pause)

    threads = [
        threading.Thread(target=run, args=(pause,), name=str(pause)) for pause in (0, 0.5, 1.25)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {
        str(pause): [(n + 1, n, n * (1 + pause)) for n in range(4)] for pause in (0, 0.5, 1.25)
    }


@BOTH
def test_a_deadline_is_not_overshot(face: Any) -> None:
    script = Script(ValueError)
    with pytest.raises(DeadlineExceeded) as caught:
        face.run(script, ConstantBackOff(0.375), timeout=0.5)
    assert type(caught.value.__cause__) is ValueError
    assert (script.times, now()) == ([0, 0.375], 0.375)


@BOTH
def test_the_last_error_is_raised_itself(face: Any) -> None:
    errors = [OSError(1), ValueError(2)]
    with pytest.raises(ValueError) as caught:
        face.run(Script(*errors), ZeroBackOff(), max_attempts=2)
    assert caught.value is errors[1]
    assert (errors[1].__cause__, errors[1].__context__) == (None, None)


@BOTH
def test_a_poller_of_many_hours_does_not_overflow(face: Any) -> None:
    polls = rounds(200, 1200)
    script = Script(*[OSError] * polls, 7)
    policy = ExponentialBackOff(0.1, 0, 2.0, 5.0, max_elapsed_time=None)
    assert face.run(script, policy) == 7
    waits = [0.1 * 2**n for n in range(6)] + [5.0] * (polls - 6)
    assert script.times[-1] == pytest.approx(sum(waits)) == now()
