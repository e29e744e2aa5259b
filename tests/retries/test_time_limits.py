"""Limits of time: timeout, attempt_timeout, max_elapsed_time, deadlines of tokens."""

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
    attempts,
    retry_call_async,
    with_token,
)
from backoff_ticker.testing import VirtualClock, no_wait
from backoff_ticker.waiting import trio_runs
from tests.helpers import sleep
from tests.retries.faces import ALL_ASYNC, ASYNC, BOTH, FOUR, SYNC, check, in_loop, on_faces
from tests.retries.hedges import takes
from tests.retries.made_hooks import taking
from tests.retries.scripts import FIVE, ONE, ZERO, Ahead, Recorded, Script, Takes, now, timed
from tests.retries.test_budget import Plain
from tests.tickers.made_policies import Scripted

LAST = OSError("last")
SLOW = Takes(50, 7)
PASSED = "in 8.0 s: the next wait of 4.0 s would reach the timeout of 10.0 s"
EXCEEDED = ": the next wait of 4.0 s would exceed max_elapsed_time of 10.0 s"
BOTH_AT_ONCE = {"timeout": 5, "attempt_timeout": 5}


def with_deadline(seconds, **options):
    return lambda: {"token": CancellationToken(timeout=seconds), **options}


CASES = {
    "the next wait would pass the limit": (
        ([OSError, OSError, LAST], 4, {"timeout": 10}),
        ([0, 4, 8], DeadlineExceeded, 8, "deadline", LAST, PASSED),
    ),
    "reached": (([OSError], 5, {"timeout": timedelta(seconds=10)}), ([0, 5], DeadlineExceeded, 5)),
    "not quite reached": (([OSError, OSError, 7], 5, {"timeout": 10.000000001}), ([0, 5, 10], 7)),
    "time-outs of the operation's own are failures": (
        ([TimeoutError("mine"), DeadlineExceeded(), 7], 1, {"timeout": 10}),
        ([0, 1, 2], 7),
    ),
    "the limit of a policy is not the timeout": (
        ([Takes(50, OSError), OSError], ExponentialBackOff(1, 0, 1, 1, 2), {"timeout": 100}),
        ([0, 51, 52], OSError, 52, "exhausted"),
    ),
    "of a token": (([LAST], 5, with_deadline(7)), ([0, 5], DeadlineExceeded, 7, "cancelled", LAST)),
    "the next wait would end after max_elapsed_time": (
        ([OSError, OSError, LAST], 4, {"max_elapsed_time": 10}),
        ([0, 4, 8], LAST, 8, "max_elapsed_time", None, EXCEEDED),
    ),
    "max_elapsed_time": (([OSError], 5, {"max_elapsed_time": 10}), ([0, 5, 10], OSError, 10)),
    "max_elapsed_time: a first call that hangs counts and is not cut": (
        ([Takes(30, LAST)], 1, {"max_elapsed_time": timedelta(seconds=20)}),
        ([0], LAST, 30, "max_elapsed_time", None, ": max_elapsed_time of 20.0 s has passed"),
    ),
    **{
        f"work that others called off, on={on}": (
            ([OSError, Cancelled("theirs"), 7], 1, {"on": on}),
            ([0, 1], Cancelled),
        )
        for on in (Exception, (OSError, Exception))
    },
    **{
        f"work that others called off but on names, {number}": (
            ([Cancelled("theirs"), 7], 1, {"on": on}),
            ([0, 1], 7),
        )
        for number, on in enumerate([Cancelled, (OSError, Cancelled), lambda _: True])
    },
}


@FOUR
@pytest.mark.parametrize("case", CASES)
def test_what_limits_of_time_do_between_attempts(face, case):
    check(face, CASES[case])


def ended_by_timeout(face, script, *args, **options):
    """Return the error of a run that its ``timeout`` ends, as all are told."""
    gave_up = Recorded()
    caught = face.fails(DeadlineExceeded, script, *args, on_give_up=gave_up, **options)
    assert type(caught) is DeadlineExceeded
    assert gave_up.last.reason == "deadline"
    return caught


@pytest.mark.parametrize("name", ["notify", "on_retry"])
def test_the_time_that_a_hook_takes_counts(face, name):
    hook, script = taking(6), Script(OSError)
    error = ended_by_timeout(face, script, FIVE, timeout=10, **{name: hook})
    assert (script.times, now()) == ([0], 6)
    assert str(error) == "the next wait of 5.0 s would reach the timeout of 10.0 s"
    script, gave_up = Script(OSError), Recorded()
    options = {"max_elapsed_time": 10, "on_give_up": gave_up, name: hook}
    face.fails(OSError, script, FIVE, **options)
    assert (script.times, now()) == ([6], 12)
    assert gave_up.last.reason == "max_elapsed_time"
    script = Script(OSError)
    ended_by_timeout(face, script, ZERO, timeout=5, **{name: hook})
    assert (script.count, now()) == (1, 18)


@FOUR
@pytest.mark.parametrize("limit", ["timeout", "max_elapsed_time"])
@pytest.mark.parametrize("slow", ["budget", "policy"])
def test_no_attempt_begins_after_a_budget_or_a_policy_that_took_too_long(face, slow, limit):
    ahead, script = Ahead(), Script(OSError)

    def later():
        ahead.seconds += 20
        return slow == "budget" or 0.0

    taken = {"budget": {"budget": Plain(later)}, "policy": {"backoff": Scripted(then=later)}}
    face.fails(OSError, script, **{"backoff": ZERO, "clock": ahead, limit: 10, **taken[slow]})
    assert script.count == 1


@on_faces("loop")
@pytest.mark.parametrize("limit", ["timeout", "max_elapsed_time"])
def test_no_block_begins_that_comes_too_late(face, clock, limit):
    run, script = attempts(ZERO, **{limit: 5}), Script(OSError)
    late = lambda attempt: attempt.number == 2 and clock.sleep(10)
    with pytest.raises(OSError):
        face.blocks(run, lambda _: script(), before=late)
    assert script.count == 1


@BOTH
def test_no_elapsed_time_is_refused(face):
    script = Script(OSError)
    told = r"max_elapsed_time must be > 0, not .*0.*: max_attempts=1 .*, max_elapsed_time=None "
    for nothing in (0, 0.0, -0.0, timedelta()):
        face.fails(ValueError, script, ZERO, max_elapsed_time=nothing, match=told)
    assert script.count == 0


@SYNC
def test_in_a_thread_nothing_is_cut_and_the_limit_is_looked_at_afterwards(face):
    last, policy = OSError("last"), Scripted(then=1.0)
    script = Script(OSError, Takes(50, last))
    error = ended_by_timeout(face, script, policy, timeout=10)
    assert (error.__cause__, str(error)) == (last, "the deadline has passed")
    assert (script.times, now(), policy.asked) == ([0, 1], 51, 1)


@pytest.mark.parametrize("limit", ["timeout", "attempt_timeout", "token", "max_elapsed_time"])
def test_a_result_that_comes_late_is_returned(face, limit):
    if limit == "attempt_timeout" and not face.asynchronous:
        return
    script, success = Script(takes(30, "late", cleanup=20, then="late")), Recorded()
    value = timed(10) if limit == "token" else 10
    assert face.run(script, on_success=success, **{limit: value}) == "late"
    assert now() == 30
    assert success.last.reason == "succeeded"


CUT = {
    "timeout": (
        ([Takes(4, LAST), SLOW], 1, {"timeout": 10}),
        ([0, 5], DeadlineExceeded, 10, "deadline", LAST),
    ),
    "timeout, first attempt": (
        ([SLOW], 1, {"timeout": 10}),
        ([0], DeadlineExceeded, 10, "deadline", type(None)),
    ),
    "timeout=0, before its first await": (([7], 1, {"timeout": 0}), ([0], 7)),
    "timeout=0": (([SLOW], 1, {"timeout": 0}), ([0], DeadlineExceeded, 0)),
    "attempt_timeout": (
        ([SLOW, Takes(4.5, OSError), Takes(4.5, 7)], 1, {"attempt_timeout": 5}),
        ([0, 6, 11.5], 7),
    ),
    **{
        f"whatever types on names, {number}": (
            ([SLOW, SLOW, 7], 1, {"attempt_timeout": 5, "on": on}),
            ([0, 6, 12], 7),
        )
        for number, on in enumerate(
            [ConnectionError, (ValueError, KeyError), {ValueError: ConstantBackOff(9)}]
        )
    },
    "a function decides": (
        ([SLOW], 1, {"attempt_timeout": 5, "on": lambda error: False}),
        ([0], TimeoutError),
    ),
    "a rule for the type decides": (
        ([SLOW], 1, {"attempt_timeout": 5, "on": {TimeoutError: False, OSError: True}}),
        ([0], TimeoutError),
    ),
    "a time-out of the operation's own": (
        ([TimeoutError("own")], 1, {"attempt_timeout": 5, "on": KeyError}),
        ([0], TimeoutError),
    ),
    "the earlier of two": (
        ([SLOW], 1, {"attempt_timeout": 4, "timeout": 13}),
        ([0, 5, 10], DeadlineExceeded, 13, "deadline", TimeoutError),
    ),
    "of two at once the one that ends the run": (
        ([SLOW], 1, BOTH_AT_ONCE),
        ([0], DeadlineExceeded, 5, "deadline", type(None)),
    ),
    **{
        f"of two at once that of the token, {limits}": (
            ([SLOW], 1, with_deadline(5, **limits)),
            ([0], DeadlineExceeded, 5, "cancelled"),
        )
        for limits in ({"timeout": 5}, {"attempt_timeout": 5}, BOTH_AT_ONCE)
    },
}


@ALL_ASYNC
@pytest.mark.parametrize("case", CUT)
def test_a_coroutine_is_cut(face, case):
    check(face, CUT[case])


@ASYNC
def test_what_a_coroutine_raises_as_it_is_cut_is_the_last_error(face):
    last = OSError("while closing")
    script = Script(takes(50, 7, then=last))
    assert ended_by_timeout(face, script, ZERO, timeout=10).__cause__ is last
    assert now() == 10


@ASYNC
def test_a_cut_leaves_no_cancel_behind(face):
    async def main():
        script = Script(SLOW, Takes(1, 8))
        assert await face.main(script, ONE, attempt_timeout=5) == 8
        for options in (
            {"token": CancellationToken(timeout=5)},
            {"timeout": 5},
            {"attempt_timeout": 5, "max_attempts": 2},
        ):
            with pytest.raises(TimeoutError):
                await face.main(Script(SLOW), ONE, **options)
            assert trio_runs() or asyncio.current_task().cancelling() == 0
            await sleep(3)

    face.in_loop(main())


def test_time_outs_of_asyncio_inside_and_outside_are_told_apart(clock):
    calls = []

    async def operation():
        calls.append(now())
        async with asyncio.timeout(2):
            await sleep(50)

    async def main():
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(7):
                await retry_call_async(operation, ONE, attempt_timeout=20)
        assert not isinstance(caught.value, DeadlineExceeded)

    in_loop(main())
    assert (calls, now()) == ([0, 3, 6], 7)


def test_a_token_with_a_deadline_on_another_clock_is_refused(face):
    script, other = Script(OSError, 7), VirtualClock()
    timed = CancellationToken(timeout=5, clock=other)
    for options in ({"token": timed}, {"backoff": with_token(ONE, timed)}):
        with pytest.raises(ValueError, match=r"token must have its deadline on .* clock.*, not on"):
            face.run(script, **options)
    assert script.count == 0
    assert face.run(script, ONE, token=CancellationToken(clock=other)) == 7


@pytest.mark.parametrize("start", [0.3, 0.1, 1000.7])
def test_attempts_are_cut_where_waits_are_skipped(start):
    with VirtualClock(start, auto=True) as clock, no_wait():
        for delay, limit in itertools.product((0.2, 0.7, 1.1), (0.3, 0.1, 0.7)):
            hang = Script(Takes(1e6, 7)).in_loop
            limits = {"attempt_timeout": limit, "max_attempts": 4}
            with pytest.raises(TimeoutError):
                in_loop(retry_call_async(hang, ConstantBackOff(delay), **limits))
        assert clock.monotonic() < start + 20


def test_skipped_time_counts_for_a_tokens_deadline_while_an_attempt_runs(clock):
    with no_wait(), pytest.raises(DeadlineExceeded):
        script, token = Script(OSError, Takes(3, 7)), CancellationToken(timeout=5)
        in_loop(retry_call_async(script.in_loop, ConstantBackOff(4), token=token))
    assert now() == 1
