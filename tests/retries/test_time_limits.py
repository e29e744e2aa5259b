"""Limits of time: timeout, attempt_timeout, deadlines of tokens."""

import asyncio
import itertools
from datetime import timedelta

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    StopReason,
    ZeroBackOff,
    retry_call,
    retry_call_async,
    with_token,
)
from backoff_ticker.testing import VirtualClock, no_wait
from tests.retries.faces import ALL_ASYNC, ASYNC, BOTH, SYNC, in_loop, on_faces
from tests.retries.made_hooks import spanning
from tests.retries.scripts import Recorded, Script, Takes, now
from tests.tickers.made_policies import Scripted


def ended_by_timeout(face, script, *args, **options):
    """Return the error of a run that its ``timeout`` ends, as all are told."""
    gave_up = Recorded()
    with pytest.raises(DeadlineExceeded) as caught:
        face.run(script, *args, on_give_up=gave_up, **options)
    assert type(caught.value) is DeadlineExceeded
    assert gave_up.last.reason is StopReason.DEADLINE
    return caught.value


# timeout, between attempts


@pytest.mark.parametrize("wait", [4, 5])
def test_it_ends_at_once_where_the_wait_would_reach_the_limit(face, wait):
    last = OSError("last")
    script, notify = Script(OSError, last, last), Recorded()
    error = ended_by_timeout(face, script, ConstantBackOff(wait), timeout=10, notify=notify)
    assert error.__cause__ is last
    assert script.times == ([0, 4, 8] if wait == 4 else [0, 5])
    assert (now(), len(notify.calls)) == (script.times[-1], script.count - 1)
    script = Script(OSError, OSError, 7)
    assert face.run(script, ConstantBackOff(5), timeout=10.000000001) == 7


@BOTH
def test_the_limit_counts_from_the_start_of_the_first_attempt(face):
    script = Script(Takes(6, OSError), Takes(1, OSError))
    error = ended_by_timeout(face, script, ConstantBackOff(2), timeout=timedelta(seconds=10))
    assert isinstance(error.__cause__, OSError)
    assert (script.times, now()) == ([0, 8], 9)


@BOTH
def test_a_time_out_of_the_operations_own_is_an_ordinary_failure(face):
    script = Script(TimeoutError("mine"), DeadlineExceeded(), 7)
    assert face.run(script, ConstantBackOff(1), timeout=10) == 7
    assert script.times == [0, 1, 2]


@BOTH
def test_work_that_others_called_off_is_not_done_again_unless_on_names_it(face):
    for on in (Exception, (OSError, Exception)):
        script = Script(OSError, Cancelled("theirs"), 7)
        with pytest.raises(Cancelled, match="theirs"):
            face.run(script, ConstantBackOff(1), on=on)
        assert script.count == 2
    for on in (Cancelled, (OSError, Cancelled), lambda _: True):
        script = Script(Cancelled("theirs"), 7)
        assert face.run(script, ConstantBackOff(1), on=on) == 7
        assert script.count == 2


@BOTH
def test_the_limit_of_a_policy_is_not_the_timeout(face):
    policy = ExponentialBackOff(1, 0, 1, 1, max_elapsed_time=2)
    script, gave_up = Script(Takes(50, OSError), OSError), Recorded()
    with pytest.raises(OSError):
        face.run(script, policy, timeout=100, on_give_up=gave_up)
    assert script.times == [0, 51, 52]
    assert gave_up.last.reason is StopReason.EXHAUSTED


@pytest.mark.parametrize("name", ["notify", "on_retry"])
def test_the_time_that_a_hook_takes_counts(face, clock, name):
    def hook(*_):
        return asyncio.sleep(6) if face.asynchronous else clock.sleep(6)

    script = Script(OSError)
    error = ended_by_timeout(face, script, ConstantBackOff(5), timeout=10, **{name: hook})
    assert (script.times, now(), str(error)) == ([0], 10, "the deadline has passed")
    script = Script(OSError)
    ended_by_elapsed_time(face, script, ConstantBackOff(5), max_elapsed_time=10, **{name: hook})
    assert (script.times, now()) == ([10], 16)
    script = Script(OSError)
    ended_by_timeout(face, script, ZeroBackOff(), timeout=5, **{name: hook})
    assert (script.count, now()) == (1, 22)


# max_elapsed_time


def ended_by_elapsed_time(face, script, *args, **options):
    """Return the note of the last error of a run that ``max_elapsed_time`` ends."""
    gave_up = Recorded()
    with pytest.raises(OSError) as caught:
        face.run(script, *args, on_give_up=gave_up, **options)
    assert caught.value is gave_up.last.last_error
    assert gave_up.last.reason is StopReason.MAX_ELAPSED_TIME
    (note,) = caught.value.__notes__
    return str(note).partition(": ")[2]


def test_no_wait_begins_that_would_end_later_and_the_last_error_is_raised(face):
    script = Script(OSError(1), OSError(2), OSError(3))
    note = ended_by_elapsed_time(face, script, ConstantBackOff(4), max_elapsed_time=10)
    assert (script.times, now()) == ([0, 4, 8], 8)
    assert note == "the next wait of 4.0 s would exceed max_elapsed_time of 10.0 s"


@BOTH
def test_an_attempt_may_begin_at_the_very_end(face):
    script = Script(OSError)
    ended_by_elapsed_time(face, script, ConstantBackOff(5), max_elapsed_time=10)
    assert script.times == [0, 5, 10]


def test_a_first_call_that_hangs_counts_and_is_not_cut(face):
    script = Script(Takes(30, OSError("hung")))
    limit = timedelta(seconds=20)
    note = ended_by_elapsed_time(face, script, ConstantBackOff(1), max_elapsed_time=limit)
    assert (script.times, now()) == ([0], 30)
    assert note == "max_elapsed_time of 20.0 s has passed"


@BOTH
def test_no_elapsed_time_is_refused_and_none_is_no_limit(face):
    script = Script(OSError)
    told = r"max_elapsed_time must be > 0, not .*0.*: max_attempts=1 .*, max_elapsed_time=None "
    for nothing in (0, 0.0, -0.0, timedelta()):
        with pytest.raises(ValueError, match=told):
            face.run(script, ZeroBackOff(), max_elapsed_time=nothing)
    assert script.count == 0
    script = Script(*[OSError] * 9, 7)
    assert face.run(script, ConstantBackOff(10**6), max_elapsed_time=None) == 7


# timeout, while an attempt runs


@SYNC
def test_in_a_thread_nothing_is_cut_and_the_limit_is_looked_at_afterwards(face):
    last, policy = OSError("last"), Scripted(then=1.0)
    script = Script(OSError, Takes(50, last))
    error = ended_by_timeout(face, script, policy, timeout=10)
    assert error.__cause__ is last
    assert (script.times, now(), policy.asked) == ([0, 1], 51, 1)


@pytest.mark.parametrize("limit", ["timeout", "attempt_timeout", "token", "max_elapsed_time"])
def test_a_result_that_comes_late_is_returned(face, limit):
    async def stubborn():
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(20)
        return "late"

    script = Script(Takes(30, "late"))
    if face.asynchronous:
        script.in_loop = stubborn
    elif limit == "attempt_timeout":
        return
    success = Recorded()
    value = CancellationToken(timeout=10) if limit == "token" else 10
    assert face.run(script, on_success=success, **{limit: value}) == "late"
    assert now() == 30
    assert success.last.reason is StopReason.SUCCEEDED


@ALL_ASYNC
def test_a_coroutine_is_cut_at_the_limit(face):
    first = OSError("first")
    script = Script(Takes(4, first), Takes(50, 7))
    error = ended_by_timeout(face, script, ConstantBackOff(1), timeout=10)
    assert error.__cause__ is first
    assert (script.times, now()) == ([0, 5], 10)
    error = ended_by_timeout(face, Script(Takes(50, 7)), timeout=10)
    assert error.__cause__ is None
    assert now() == 20


@ASYNC
def test_what_a_coroutine_raises_as_it_is_cut_is_the_last_error(face):
    last = OSError("while closing")

    async def closing():
        try:
            await asyncio.sleep(50)
        finally:
            raise last

    script = Script(7)
    script.in_loop = closing
    assert ended_by_timeout(face, script, ZeroBackOff(), timeout=10).__cause__ is last
    assert now() == 10


@ASYNC
def test_a_timeout_of_zero_lets_the_first_attempt_run_to_its_first_await(face):
    assert face.run(Script(7), timeout=0) == 7
    ended_by_timeout(face, Script(Takes(5, 7)), timeout=0)
    assert now() == 0


# attempt_timeout


@ASYNC
def test_each_attempt_may_take_so_long(face):
    script, notify = Script(Takes(50, 7), Takes(4.5, OSError), Takes(4.5, 7)), Recorded()
    assert face.run(script, ConstantBackOff(1), attempt_timeout=5, notify=notify) == 7
    assert script.times == [0, 6, 11.5]
    assert type(notify.calls[0][1]) is TimeoutError
    assert [(when, type(error)) for when, error, _ in notify.calls] == [
        (5, TimeoutError),
        (10.5, OSError),
    ]


@ALL_ASYNC
def test_a_cut_attempt_is_retried_whatever_types_on_names(face):
    for on in (ConnectionError, (ValueError, KeyError), {ValueError: ConstantBackOff(9)}):
        script = Script(Takes(50, 7), Takes(50, 7), 7)
        start = now()
        assert face.run(script, ConstantBackOff(1), attempt_timeout=5, on=on) == 7
        assert [at - start for at in script.times] == [0, 6, 12]


@ASYNC
def test_a_function_and_a_rule_for_the_type_decide_about_a_cut_attempt(face):
    for on in (
        lambda error: not isinstance(error, TimeoutError),
        {TimeoutError: False, OSError: True},
    ):
        script = Script(Takes(50, 7))
        with pytest.raises(TimeoutError):
            face.run(script, ConstantBackOff(1), attempt_timeout=5, on=on)
        assert script.count == 1
    script = Script(Takes(50, 7), 7)
    face.run(script, ConstantBackOff(1), attempt_timeout=5, on={TimeoutError: ConstantBackOff(20)})
    assert script.times[1] - script.times[0] == 25


@ASYNC
def test_a_time_out_of_the_operations_own_is_looked_up_as_any_error(face):
    with pytest.raises(TimeoutError, match="own"):
        face.run(Script(TimeoutError("own")), ConstantBackOff(1), attempt_timeout=5, on=KeyError)


@ASYNC
def test_of_both_limits_the_earlier_cuts(face):
    script = Script(Takes(50, 7))
    error = ended_by_timeout(face, script, ConstantBackOff(1), attempt_timeout=4, timeout=13)
    assert type(error.__cause__) is TimeoutError
    assert (script.times, now()) == ([0, 5, 10], 13)


@ASYNC
def test_of_limits_at_the_same_moment_the_one_that_ends_the_run_counts(face):
    script = Script(Takes(50, 7))
    error = ended_by_timeout(face, script, ConstantBackOff(1), attempt_timeout=5, timeout=5)
    assert error.__cause__ is None
    for options in ({"timeout": 5}, {"attempt_timeout": 5}, {"timeout": 5, "attempt_timeout": 5}):
        began, gave_up, token = now(), Recorded(), CancellationToken(timeout=5)
        with pytest.raises(DeadlineExceeded):
            face.run(Script(Takes(50, 7)), token=token, on_give_up=gave_up, **options)
        assert now() - began == 5
        assert gave_up.last.reason is StopReason.CANCELLED


@on_faces("async call", "async loop, async with")
def test_a_cut_leaves_no_cancel_behind(face):
    async def main():
        script = Script(Takes(50, 7), Takes(1, 8))
        assert await face.main(script, ConstantBackOff(1), attempt_timeout=5) == 8
        for options in (
            {"token": CancellationToken(timeout=5)},
            {"timeout": 5},
            {"attempt_timeout": 5, "max_attempts": 2},
        ):
            with pytest.raises(TimeoutError):
                await face.main(Script(Takes(50, 7)), ConstantBackOff(1), **options)
            assert asyncio.current_task().cancelling() == 0
            await asyncio.sleep(3)

    in_loop(main())
    assert now() == 7 + 5 + 3 + 5 + 3 + 11 + 3


def test_time_outs_of_asyncio_inside_and_outside_are_told_apart(clock):
    calls = []

    async def operation():
        calls.append(now())
        async with asyncio.timeout(2):
            await asyncio.sleep(50)

    async def main():
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(7):
                await retry_call_async(operation, ConstantBackOff(1), attempt_timeout=20)
        assert not isinstance(caught.value, DeadlineExceeded)

    in_loop(main())
    assert (calls, now()) == ([0, 3, 6], 7)


# Deadlines of tokens


def test_a_token_with_a_deadline_on_another_clock_is_refused(face):
    script, other = Script(OSError, 7), VirtualClock()
    with pytest.raises(ValueError, match=r"token must have its deadline on .* clock.*, not on"):
        face.run(script, ConstantBackOff(1), token=CancellationToken(timeout=5, clock=other))
    assert script.count == 0
    policy = with_token(ConstantBackOff(1), CancellationToken(timeout=5, clock=other))
    with pytest.raises(ValueError, match="token must have its deadline on"):
        face.run(script, policy)
    assert script.count == 0
    assert face.run(script, ConstantBackOff(1), token=CancellationToken(clock=other)) == 7


@BOTH
def test_the_deadline_of_a_token_is_waited_for(face, clock):
    token, error = CancellationToken(clock=clock).child(timeout=7), OSError()
    gave_up, script = Recorded(), Script(error)
    with pytest.raises(DeadlineExceeded) as caught:
        face.run(script, ConstantBackOff(5), token=token, on_give_up=gave_up)
    assert caught.value.__cause__ is error
    assert gave_up.last.reason is StopReason.CANCELLED
    assert (script.times, now()) == ([0, 5], 7)


@ALL_ASYNC
def test_a_manager_is_left_with_what_cut_its_attempt(face):
    for options, kind in [
        ({"attempt_timeout": 2}, TimeoutError),
        ({"timeout": 3}, DeadlineExceeded),
        ({"token": CancellationToken(timeout=30)}, DeadlineExceeded),
    ]:
        log = []
        hooks = spanning(log, "on_attempt")
        with pytest.raises(kind):
            face.run(Script(Takes(100, 7)), max_attempts=1, **options, **hooks)
        assert type(log[1][-1]) is kind


@BOTH
def test_no_attempt_begins_after_the_timeout_has_passed_in_its_hook(face, clock):
    def hook(outcome):
        if outcome.attempts == 1:
            return None
        return asyncio.sleep(10) if face.asynchronous else clock.sleep(10)

    script = Script(OSError("first"), 7)
    error = ended_by_timeout(face, script, ConstantBackOff(1), timeout=5, on_attempt=hook)
    assert script.count == 1
    assert str(error.__cause__) == "first"


def test_a_wait_that_would_reach_the_timeout_is_told_not_that_it_has_passed(face):
    told = "the next wait of 3.0 s would reach the timeout of 4.0 s"
    error = ended_by_timeout(face, Script(OSError), ConstantBackOff(3), timeout=4)
    assert str(error) == told
    assert error.__notes__ == [f"gave up after 2 attempts in 3.0 s: {told}"]
    assert now() == 3.0
    error = ended_by_timeout(face, Script(OSError), ConstantBackOff(10), timeout=1)
    assert str(error) == "the next wait of 10.0 s would reach the timeout of 1.0 s"
    error = ended_by_timeout(face, Script(Takes(5, OSError)), ConstantBackOff(1), timeout=4)
    assert str(error) == "the deadline has passed"


@pytest.mark.parametrize("start", [0.3, 0.1, 1000.7])
def test_attempts_are_cut_where_waits_are_skipped(start):
    with VirtualClock(start, auto=True) as clock, no_wait():
        for delay, limit in itertools.product((0.2, 0.7, 1.1), (0.3, 0.1, 0.7)):
            hang = Script(Takes(1e6, 7)).in_loop
            limits = {"attempt_timeout": limit, "max_attempts": 4}
            with pytest.raises(TimeoutError):
                in_loop(retry_call_async(hang, ConstantBackOff(delay), **limits))
        assert clock.monotonic() < start + 20


def test_skipped_waits_of_any_length_add_up(clock):
    with no_wait(), pytest.raises(OSError) as caught:
        retry_call(Script(OSError), ConstantBackOff(1e308), max_attempts=5)
    assert "inf" not in caught.value.__notes__[0]


def test_skipped_time_counts_for_a_tokens_deadline_while_an_attempt_runs(clock):
    with no_wait(), pytest.raises(DeadlineExceeded):
        script, token = Script(OSError, Takes(3, 7)), CancellationToken(timeout=5)
        in_loop(retry_call_async(script.in_loop, ConstantBackOff(4), token=token))
    assert now() == 1
